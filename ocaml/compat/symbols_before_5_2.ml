let is_visible visible id = Ident.is_predef id || visible (Ident.name id)
