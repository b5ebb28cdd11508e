(** What the session has defined. *)

type binding =
  { name : string
  ; typ : string
  }

(** [remember_start ()] takes the current environment for that of a session which has
    defined nothing yet. *)
val remember_start : unit -> unit

(** The current environment is that behind the next phrase of the phrase log. *)
val mark : unit -> unit

(** The session's values become garbage, as far as nothing else refers to them. The names
    must be forgotten, too. *)
val forget_values : unit -> unit

(** [bindings ~filter ~all ~limit] are the value bindings in scope whose names contain
    [filter], in order of definition, without those that were shadowed: the first [limit]
    of them, and their number. With [all], those that the standard library and opened
    modules bring come before the session's own, in order of name. *)
val bindings : filter:string -> all:bool -> limit:int -> binding list * int
