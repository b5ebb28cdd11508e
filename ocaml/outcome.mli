(** What one evaluation came to: plain data, handed to Rust field by field.

    [src/bridge/values.rs] reads these types by position; [src/outcome.rs] is their
    twin. Change the three together. *)

type severity =
  | Error
  | Warning

type kind =
  | Syntax  (** the source does not parse *)
  | Type  (** rejected before it ran: types, names, directives, links *)
  | Lint  (** a compiler warning or alert *)
  | Exception  (** raised by user code *)
  | Interrupted  (** stopped by the break that topup sent *)
  | Exit  (** user code asked the process to end *)

(** A stretch of the caller's source. Lines count from 1, columns from 0 in
    characters (Unicode scalar values), the end is exclusive. *)
type span =
  { line : int
  ; column : int
  ; end_line : int
  ; end_column : int
  }

type diagnostic =
  { severity : severity
  ; kind : kind
  ; code : string  (** ["W008"]; empty where the compiler has no number *)
  ; message : string  (** without location, excerpt and ["Error: "] *)
  ; span : span option  (** [None] if it is not in the caller's source *)
  ; hints : string list
  }

type t =
  { value_repr : string option
  ; typ : string option
  ; name : string option
  ; earlier : string list
  ; warnings : string list  (** each as the compiler prints it *)
  ; error : string option  (** as the compiler prints it *)
  ; diagnostics : diagnostic list
  }
