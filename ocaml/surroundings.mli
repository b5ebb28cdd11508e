(** What is in scope at a place of a source that need not be finished. *)

type t =
  { env : Env.t
  ; unfinished : Tokens.token array  (** of the definition that the place is in *)
  ; typed : bool  (** whether [env] has what that definition itself binds *)
  }

(** [at source tokens ~from] is what is in scope at [from], a byte of [source], of which
    [tokens] are those before the place of interest. The definitions before count as far as
    the type checker accepts them. Call it within {!Typecheck.without_trace}.
    @raise exn our own break. *)
val at : string -> Tokens.token array -> from:int -> t

(** [attempt f] is [f ()] if that ends well.
    @raise exn our own break. *)
val attempt : (unit -> 'a) -> 'a option
