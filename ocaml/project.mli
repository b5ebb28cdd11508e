(** The libraries of a dune project in the session. *)

(** Names of units and bindings. *)
type loaded =
  { units : string list  (** linked now *)
  ; unchanged : string list  (** as they were *)
  ; stale : string list  (** bindings that go on with code which was replaced *)
  ; dropped : string list  (** bindings that are gone: their types have changed *)
  ; failure : exn option
      (** why linking ended early: {!Archive.Cannot_load}, {!Archive.Initialiser_raised}, or a
          break *)
  }

(** The project does not build; what dune says. *)
exception Does_not_build of string

(** [load folder] builds the project in [folder] and links its libraries and those that they
    need: what was not linked before or has changed, and what depends on it. Initialisers
    are user code; run it under {!Interrupt.guard}.
    @raise Does_not_build
    @raise Archive.Cannot_load if a file is at fault; the session is as before. *)
val load : string -> loaded
