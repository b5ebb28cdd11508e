let is_visible visible = function
  | Symtable.Global.Glob_predef _ -> true
  | Glob_compunit (Cmo_format.Compunit name) -> visible name
