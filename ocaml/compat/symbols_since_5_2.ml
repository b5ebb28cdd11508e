open Cmo_format

let is_visible visible = function
  | Symtable.Global.Glob_predef _ -> true
  | Glob_compunit (Compunit name) -> visible name

let is_defined name = Symtable.is_global_defined (Glob_compunit (Compunit name))

let unit_name (code : compilation_unit) =
  let (Compunit name) = code.cu_name in
  name

let names units code = List.map (fun (Compunit name) -> name) (units code.cu_reloc)
let required = names Symtable.required_compunits
let defined = names Symtable.initialized_compunits

let code ic (code : compilation_unit) =
  let size = code.cu_codesize in
  let text = Bigarray.Array1.create Bigarray.char Bigarray.c_layout size in
  match In_channel.really_input_bigarray ic text 0 size with
  | Some () -> text
  | None -> raise End_of_file
