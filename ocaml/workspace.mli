(** What the session has defined. *)

type binding =
  { name : string
  ; typ : string
  }

(** [remember_start ()] takes the current environment for that of a session which has
    defined nothing yet. *)
val remember_start : unit -> unit

(** The names of the session's values and modules. *)
val defined : unit -> string list

(** What the session has added to the environment of its start, the oldest first, each
    with all that came before it. *)
val history : unit -> Env.summary list

(** The environment at the start. *)
val at_start : unit -> Env.summary

type phrase =
  { text : string
  ; defined : string list  (** its values and modules *)
  }

(** [mark ~before text] notes a phrase of the phrase log: the current environment is that
    behind it, [before] that before it. *)
val mark : before:Env.summary -> string -> unit

(** The phrases that were noted since the start, the oldest first. *)
val phrases : unit -> phrase list

(** The session's values become garbage, as far as nothing else refers to them. The names
    must be forgotten, too. *)
val forget_values : unit -> unit

(** [bindings ~filter ~all ~limit] are the value bindings in scope whose names contain
    [filter], in order of definition, without those that were shadowed: the first [limit]
    of them, and their number. With [all], those that the standard library and opened
    modules bring come before the session's own, in order of name. *)
val bindings : filter:string -> all:bool -> limit:int -> binding list * int
