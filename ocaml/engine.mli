(** One definition or expression through the compiler and into the process. *)

(** How the code of a phrase ended. *)
type ended =
  | Returned of Outcometree.out_phrase
  | Raised of Outcometree.out_phrase * string
      (** the exception and its backtrace; no binding was made *)

(** Call after {!Variant.install}, and again for a fresh toplevel. *)
val install : unit -> unit

(** [run ppf phrase] checks, compiles and runs the phrase. If it raises, the
    compiler rejected the phrase, and environment and values are as before.
    Interrupts are welcome (see {!Interrupt.guard}). *)
val run : Format.formatter -> Parsetree.structure -> ended
