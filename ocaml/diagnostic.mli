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

(** The compiler's name for what a caller sent. *)
val input_name : string

(** [report_missing reports] reports again those that have not been since the last
    [drain], before the others. *)
val report_missing : t list -> unit

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

(** Paper to print on. Making a formatter costs as much as type-checking a phrase, so
    each place that prints keeps one. *)
type sheet

val sheet : unit -> sheet

(** As {!text}, on a sheet of the caller's: printing may go on while warnings arrive,
    which are printed with {!text}. *)
val text_on : sheet -> (Format.formatter -> 'a -> unit) -> 'a -> string
