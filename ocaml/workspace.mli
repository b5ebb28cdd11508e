(** What the session has defined. *)

type binding =
  { name : string
  ; typ : string
  }

(** [remember_start ()] takes the current environment for that of a session which has
    defined nothing yet. *)
val remember_start : unit -> unit

(** A phrase of the phrase log. *)
type phrase =
  { number : int  (** from 1 *)
  ; text : string  (** as in the log *)
  ; start : Lexing.position  (** of its text, in the source that it came with *)
  ; docs : (Location.t * string) list  (** see {!Documentation.of_values} *)
  ; defined : string list  (** its values and modules *)
  }

(** [mark ~before phrase] notes a phrase that enters the phrase log, with its text there:
    the current environment is that behind it, [before] that before it. *)
val mark : before:Env.summary -> Phrases.phrase -> unit

(** The phrases that were noted since the start, the oldest first. *)
val phrases : unit -> phrase list

(** The phrase that defined an identifier of the current environment. *)
val origin : Ident.t -> phrase option

(** What an environment has that the session's start had not, shadowed or not, the oldest
    first. *)
val own : Env.t -> Ident.t list

(** The names of the session's values and modules. *)
val defined : unit -> string list

(** One step back in the history of an environment, and the value that it defined. *)
val step : Env.summary -> Env.summary option * (Ident.t * Types.value_description) option

(** What the session has added to the environment of its start, the oldest first, each
    with all that came before it. *)
val history : unit -> Env.summary list

(** The environment at the start. *)
val at_start : unit -> Env.summary

(** The session's values become garbage, as far as nothing else refers to them. The names
    must be forgotten, too. *)
val forget_values : unit -> unit

(** [bindings ~filter ~all ~limit] are the value bindings in scope whose names contain
    [filter], in order of definition, without those that were shadowed: the first [limit]
    of them, and their number. With [all], those that the standard library and opened
    modules bring come before the session's own, in order of name. *)
val bindings : filter:string -> all:bool -> limit:int -> binding list * int
