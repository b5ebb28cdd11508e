(** The run of one source: its phrases in order, up to the first that fails. *)

(** [eval ~quiet source] runs the phrases of [source]. With [quiet], what the phrases
    before the last print and are warned of is left out. It raises nothing that user code or the compiler
    raised. *)
val eval : quiet:bool -> string -> Outcome.t

(** Called with the text of each phrase that belongs in the phrase log, as soon as it has
    succeeded. Set by [Bridge]. *)
val succeeded : (string -> unit) ref

(** What the compiler reported and what ended the run, in order, as an outcome; the triple
    is value, type and name. *)
val assemble :
  earlier:string list ->
  reports:Diagnostic.t list ->
  errors:Diagnostic.t list ->
  string option * string option * string option ->
  Outcome.t

(** [recover ~skip source] runs the phrases of a phrase log again, but for those whose
    numbers, from 1, are in [skip]. One that fails is left out: its number and error are
    returned. *)
val recover : skip:int list -> string -> (int * string) list

(** Called before each phrase that runs again, in a replay of any kind. Set by [Bridge]. *)
val attempted : (unit -> unit) ref
