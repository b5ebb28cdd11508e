(** Every difference between compiler versions that both variants meet. *)

(** Turns colours off, for good. *)
val no_colors : unit -> unit

(** Makes a formatter print the compiler's style tags as plain text would show
    them: quotes around code, no colours. *)
val plain_style : Format.formatter -> unit

val out_type : Format.formatter -> Outcometree.out_type -> unit

(** Whether the caller runs on the domain of the eval thread. *)
val on_main_domain : unit -> bool

(** Heeds [OCAMLTOP_INCLUDE_PATH], where the compiler knows it. *)
val search_path_from_env : unit -> unit

(** The file of a unit in the load path, whichever way its name begins: [Foo.cma] is
    [foo.cma], too. @raise Not_found *)
val find_unit_file : string -> string
