(** What may stand at a place in a source. *)

(** What a name there would be. *)
type position =
  | Expression
  | Record  (** an expression or a field's name *)
  | Type
  | Module
  | Module_type
  | Class
  | Any  (** the argument of a directive *)

type t =
  | Directive
  | Label of
      { head : string  (** the function that is applied, as written *)
      ; given : string list  (** the labels that it has already *)
      ; optional : bool  (** after [?] *)
      }
  | Method of string  (** of the object that the text evaluates to *)
  | Field of string * string list
      (** of the record that the text evaluates to; the module that qualifies the field *)
  | Name of string list * position  (** in that module; of the environment if empty *)

type place =
  { context : t
  ; start : int  (** where the name that is to be completed begins, in bytes *)
  ; from : int  (** where the expression that it ends begins *)
  }

(** [find source tokens offset] is what stands at [offset], behind [tokens] (see
    {!Tokens.before}). [None] where there is nothing to complete: behind a literal, say. *)
val find : string -> Tokens.token array -> int -> place option
