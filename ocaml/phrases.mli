(** A source as the phrases it holds. *)

type t

type phrase =
  { ast : Parsetree.toplevel_phrase
  ; text : string  (** as written, [;;] included if it was there, trimmed *)
  ; start : Lexing.position
        (** where that begins; in a file only the offset is known *)
  }

(** [of_source source] reads what a caller sent. Until {!within} ends, the
    compiler's locations, excerpts and our spans refer to it. *)
val of_source : string -> t

(** [of_file ~name contents] reads a file that a directive names; as in the
    toplevel, each definition is a phrase of its own and nothing runs if any of
    it does not parse. *)
val of_file : name:string -> string -> t

(** [record phrase] is its text as the phrase log holds it: it ends in [;;]. *)
val record : phrase -> string

(** [within t f] is [f ()] with [t] as the compiler's current input. *)
val within : t -> (unit -> 'a) -> 'a

(** The next phrase that is not empty, [None] at the end. The [;;] of the last
    one may be missing.
    @raise exn what the compiler's parser raises. *)
val next : t -> phrase option
