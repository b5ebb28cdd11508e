(** Compiler reports and exceptions as diagnostics and as the text that the
    toplevel prints for them. *)

type t =
  { text : string  (** as the compiler prints it, no newline at the end *)
  ; diagnostic : Outcome.diagnostic
  }

(** Routes the compiler's warnings and alerts here instead of to stderr, and
    fixes how reports look: no colours, no terminal tricks. Call once. *)
val install : unit -> unit

(** The warnings and alerts reported since the last [drain], in order. Those that
    were turned into errors have severity [Error]. *)
val drain : unit -> t list

(** [set_source source] names the text that spans refer to. *)
val set_source : string -> unit

(** [of_exn exn] describes a compiler failure. [None] means that the failure
    consists of warnings turned into errors, which [drain] returns. *)
val of_exn : exn -> t option

(** [error kind text] is a failure that has no place in the source. *)
val error : Outcome.kind -> string -> t

(** [text print x] is what [print] prints for [x], in the geometry of the
    standard formatter, without empty lines around it. *)
val text : (Format.formatter -> 'a -> unit) -> 'a -> string
