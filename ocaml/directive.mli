(** The directives that read phrases, which topup runs itself so that each of
    them is checked, reported and logged like any other. *)

(** [phrases ast] is what [#use], [#mod_use] and [#use_output] stand for; [None]
    for everything else. *)
val phrases : Parsetree.toplevel_phrase -> (Phrases.t, Diagnostic.t list) result option

(** Whether a phrase that succeeded belongs in the phrase log. *)
val is_kept : Parsetree.toplevel_phrase -> bool
