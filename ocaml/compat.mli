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

(** What calls a function on each path in a declaration. *)
type paths =
  { of_value : Types.value_description -> unit
  ; of_type : Types.type_declaration -> unit
  ; of_extension : Types.extension_constructor -> unit
  ; of_module : Types.module_declaration -> unit
  ; of_modtype : Types.modtype_declaration -> unit
  ; of_class : Types.class_declaration -> unit
  ; of_cltype : Types.class_type_declaration -> unit
  }

(** [paths f visit] is [visit] of what calls [f]; types that were met are not met again. *)
val paths : (Path.t -> unit) -> (paths -> unit) -> unit
