(** The tokens of a source up to a place in it, and what can be told from them alone. *)

type token =
  { kind : Parser.token
  ; first : int  (** bytes into the source *)
  ; last : int
  }

(** [before source offset] has the tokens that begin before [offset]; the last may be cut by
    it. [None] inside a string or comment. *)
val before : string -> int -> token array option

(** [opening tokens i] is the index of the bracket that the one at [i] closes. *)
val opening : token array -> int -> int option

(** [depths tokens] says for each token within how many brackets, or [begin], [struct]
    and the like, it stands. *)
val depths : token array -> int array

(** [locals tokens] are the names that patterns bind before the end, the latest first, as
    far as the brackets around them are still open: parameters, [let] within an
    expression, cases. *)
val locals : token array -> string list

(** [opens tokens] are the modules of [let open M in] and [M.( … ] that are still open at
    the end, the outermost first. *)
val opens : token array -> string list list

(** What closes the brackets that are open at the end. *)
val closers : token array -> string
