type severity =
  | Error
  | Warning

type kind =
  | Syntax
  | Type
  | Lint
  | Exception
  | Interrupted

type span =
  { line : int
  ; column : int
  ; end_line : int
  ; end_column : int
  }

type diagnostic =
  { severity : severity
  ; kind : kind
  ; code : string
  ; message : string
  ; span : span option
  ; hints : string list
  }

type t =
  { value_repr : string option
  ; typ : string option
  ; name : string option
  ; earlier : string list
  ; warnings : string list
  ; error : string option
  ; diagnostics : diagnostic list
  ; succeeded : string list
  }
