(** Doc comments: those of installed libraries, which the files beside their compiled
    interfaces hold, and those of the session's own phrases.

    Texts keep odoc's markup; they are trimmed, and lines lose the indentation that all
    but the first share. *)

(** The doc comments among a definition's attributes. *)
val of_attributes : Parsetree.attributes -> string option

(** The values that a phrase defines and documents, each by the place of its name. The
    environment does not keep these, as it does the attributes of everything else. *)
val of_values : Parsetree.toplevel_phrase -> (Location.t * string) list

(** [of_definition ~unit_name loc] is what the interface, or else the implementation, of
    an installed unit says of the definition at [loc]. [None] also when there is no such
    file, or it is cut off or another compiler's. As the compiler does with interfaces, it
    trusts the bytes of one that is whole. *)
val of_definition : unit_name:string -> Location.t -> string option

(** What an installed unit's interface says at its beginning. *)
val of_unit : string -> string option

(** The compiled interface of an installed unit, if it is on the load path. *)
val interface : string -> string option
