open Cmo_format

let is_visible visible id = Ident.is_predef id || visible (Ident.name id)
let is_defined name = Symtable.is_global_defined (Ident.create_persistent name)
let unit_name (code : compilation_unit) = code.cu_name

let names f (code : compilation_unit) =
  List.filter_map (fun (relocation, _) -> f relocation) code.cu_reloc

let required =
  names (function
    | Reloc_getglobal id when not (Ident.is_predef id) -> Some (Ident.name id)
    | _ -> None)

let defined =
  names (function
    | Reloc_setglobal id -> Some (Ident.name id)
    | _ -> None)

(* These compilers leave it to the linker to end a unit's code: RETURN 1. *)
let code ic (code : compilation_unit) =
  let size = code.cu_codesize in
  let text = Misc.LongString.create (size + 8) in
  Misc.LongString.input_bytes_into text ic size;
  List.iteri
    (fun i byte -> Misc.LongString.set text (size + i) (Char.chr byte))
    [ Opcodes.opRETURN; 0; 0; 0; 1; 0; 0; 0 ];
  text
