(** Type checking that runs nothing and leaves no trace. *)

(** [source text] type-checks the phrases of a source in order up to the first that is
    rejected, each in the environment of those before it. The outcome's [earlier] has the
    text of each, as the toplevel would declare it; there is no value. The list names the
    directives that the source holds, which are not run.

    Environment, type variables, warnings and everything else of the session stay as they
    were. Runs no user code but ppx rewriters and printers of types. *)
val source : string -> Outcome.t * string list

(** [without_trace f] is [f ()], after which the type checker's state is as before. *)
val without_trace : (unit -> 'a) -> 'a

(** [phrase env structure] is what the phrase defines, as text, and the environment behind
    it. Interrupts are welcome.
    @raise exn what the compiler raises for a phrase that it rejects. *)
val phrase : Env.t -> Parsetree.structure -> string * Env.t
