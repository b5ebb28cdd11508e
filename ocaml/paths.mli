(** The paths that declarations mention. *)

(** What calls a function on each path in a declaration. *)
type visitors =
  { of_value : Types.value_description -> unit
  ; of_type : Types.type_declaration -> unit
  ; of_extension : Types.extension_constructor -> unit
  ; of_module : Types.module_declaration -> unit
  ; of_modtype : Types.modtype_declaration -> unit
  ; of_class : Types.class_declaration -> unit
  ; of_cltype : Types.class_type_declaration -> unit
  }

(** [iter f visit] is [visit] of what calls [f]; types that were met are not met again. *)
val iter : (Path.t -> unit) -> (visitors -> unit) -> unit
