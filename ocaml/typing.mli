(** The type checker's data and functions that differ between compiler versions. *)

val desc : Types.type_expr -> Types.type_desc

(** [check env phrase] type-checks one phrase in [env], which stays as it is: the typed
    phrase, what it defines, and the environment behind it.
    @raise exn what the compiler raises for a phrase that it rejects. *)
val check :
  Env.t -> Parsetree.structure -> Typedtree.structure * Types.signature * Env.t

(** The compilation unit that a definition comes from, if it says so. *)
val unit_of : Types.Uid.t -> string option

(** The string that an expression is, if it is a literal one. *)
val string_literal : Parsetree.expression -> string option

(** Call [Lexer.init] by this name. *)
val init_lexer : unit -> unit
