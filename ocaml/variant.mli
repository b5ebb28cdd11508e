(** What differs between the bytecode and the native toplevel. *)

(** Prepares the compiler for this variant. Call once, before the environment is
    built. *)
val install : unit -> unit

(** [backtrace printed] is the backtrace of the exception that just ended a
    phrase; [printed] is what [Toploop.execute_phrase] wrote. *)
val backtrace : string -> string

(** The value at a path of an environment; [None] if its unit is not loaded. *)
val value : Env.t -> Path.t -> Obj.t option

(** The units and their code that are known now stay known; see {!forget}. Call once, when
    the toplevel is up. *)
val remember : unit -> unit

(** [forget_value id] drops the value that a phrase gave to [id]. No later phrase may
    refer to it. *)
val forget_value : Ident.t -> unit

(** Units that were loaded since {!remember}, and what the compiler knows of their
    interfaces, are not known any more. Code that still runs keeps what it refers to. *)
val forget : unit -> unit
