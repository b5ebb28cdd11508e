(** The toplevel: everything that Rust can ask of OCaml.

    One per process, used by one thread. *)

(** Builds the initial environment. Call once, before anything else.
    @raise Failure if the compiler's own library cannot be found. *)
val boot : unit -> unit

(** [eval source] runs the phrases of [source] in order up to the first that
    fails. It raises nothing that user code or the compiler raised. *)
val eval : string -> Outcome.t

(** [replay source] is [eval source] for a checkpoint: what the phrases before the last
    print is left out. *)
val replay : string -> Outcome.t

(** The phrases of a phrase log, again (see {!Evaluation.recover}). *)
val recover : skip:int list -> string -> (int * string) list

(** A fresh toplevel (see {!Fresh.restore}). *)
val reset : unit -> unit

(** The session's value bindings (see {!Workspace.bindings}). *)
val env : filter:string -> all:bool -> limit:int -> Workspace.binding list * int

(** The session as a program (see {!Program.of_log}). *)
val program : entry:string -> string -> (Program.t, string) result

(** [load path] links a file of compiled code (see {!Archive.load}): the names of its
    units, and why it could not be done. *)
val load : string -> string list * string option

(** What {!load_project} did: names of units, and of bindings. *)
type project =
  { units : string list
  ; unchanged : string list
  ; stale : string list
  ; dropped : string list
  ; error : (bool * string) option  (** whether it is the build that failed, and why *)
  }

(** [load_project folder] builds a dune project and links its libraries (see
    {!Project.load}). [src/bridge/values.rs] reads the record by position. *)
val load_project : string -> project

(** The packages that the session required (see {!Findlib.required}). *)
val packages : unit -> string list

(** What a name stands for (see {!Lookup.find}). *)
val lookup : string -> (Lookup.t, string) result

(** The types of a source that is not run (see {!Typecheck.source}). *)
val typecheck : string -> Outcome.t * string list

(** The completions at a place of a source (see {!Completion.at}). *)
val complete : string -> offset:int -> limit:int -> Completion.t

(** Empties the buffers of [Stdlib] and [Format] for stdout and stderr. False if what they
    hold could not be written because a file cannot grow; then they hold it still. *)
val flush : unit -> bool
