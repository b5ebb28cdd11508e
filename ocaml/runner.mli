(** One phrase, run to its end or undone. *)

(** What a phrase left to print. *)
type printed =
  | Nothing
  | Outcome of Outcometree.out_phrase
  | Text of string  (** a directive's own words *)

(** [run ast] preprocesses, checks, compiles and runs one phrase.

    A phrase that is rejected leaves the environment, the values, the types it
    met and the state of warnings as they were. One that raises leaves no
    binding; what it did to mutable state is done. *)
val run : Parsetree.toplevel_phrase -> (printed, Diagnostic.t list) result

(** [capturing f] runs [f]; what it prints on the standard formatters becomes the text,
    trimmed, and not output. *)
val capturing : (unit -> 'a) -> ('a, exn) result * string

(** [interruptible f] is [f ()] under {!Interrupt.guard}; what it raises is described. *)
val interruptible : (unit -> 'a) -> ('a, Diagnostic.t list) result

(** [compiling ?compiler_patience f] is [f ppf] under {!Interrupt.guard}, and what the
    compiler printed on [ppf]. *)
val compiling : ?compiler_patience:int -> (Format.formatter -> 'a) -> 'a * string

(** [with_fresh_memory check] is [check ()], tried again if the compiler rejects something
    that it may have looked for before it was there.
    @raise exn what [check] raises the second time. *)
val with_fresh_memory : (unit -> 'a) -> 'a

(** [describe exn] is what ended an evaluation when it was not user code that raised. *)
val describe : exn -> Diagnostic.t list

(** [show printed] is all that the toplevel prints for it: [val x : int = 1]. *)
val show : printed -> string

(** The value, type and name apart, for the last phrase of a source. *)
val parts : printed -> string option * string option * string option
