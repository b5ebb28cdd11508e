(** Bindings that were made with code which has been replaced. *)

(** [replace units]: code of these units has been replaced, now. *)
val replace : string list -> unit

(** The names of the session's bindings whose phrases named a unit that was replaced later,
    or a binding of which that is true. What they hold goes on with the old code. *)
val bindings : unit -> string list

(** Nothing has been replaced. For a reset. *)
val forget : unit -> unit
