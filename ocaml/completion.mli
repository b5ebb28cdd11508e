(** What can be written at a place of a source. *)

type item =
  { name : string  (** labels with their [~] or [?] *)
  ; kind : string
        (** as {!Lookup} names it, or ["local"], ["label"], ["method"], ["directive"] *)
  ; typ : string option
  }

type t =
  { start : int  (** where the name that is completed begins, in bytes *)
  ; prefix : string  (** what is written of it *)
  ; shown : item list
  ; total : int  (** with those beyond the limit *)
  ; interrupted : bool  (** by a break; there may be more then *)
  }

(** [at source offset ~limit] are the completions at [offset], in bytes: what is bound
    within the expression and by the session first, then the rest, each in order of name.

    Whatever the source defines before [offset] counts; it is type-checked, which leaves no
    trace (see {!Typecheck}), and not run. *)
val at : string -> offset:int -> limit:int -> t
