type visitors =
  { of_value : Types.value_description -> unit
  ; of_type : Types.type_declaration -> unit
  ; of_extension : Types.extension_constructor -> unit
  ; of_module : Types.module_declaration -> unit
  ; of_modtype : Types.modtype_declaration -> unit
  ; of_class : Types.class_declaration -> unit
  ; of_cltype : Types.class_type_declaration -> unit
  }

let iter f visit =
  Types.with_type_mark (fun mark ->
      let it = { (Btype.type_iterators mark) with it_path = f } in
      visit
        { of_value = it.it_value_description it
        ; of_type = it.it_type_declaration it
        ; of_extension = it.it_extension_constructor it
        ; of_module = it.it_module_declaration it
        ; of_modtype = it.it_modtype_declaration it
        ; of_class = it.it_class_declaration it
        ; of_cltype = it.it_class_type_declaration it
        })
