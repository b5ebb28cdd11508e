let backtrace printed = printed

(* The units that user code may name or load anew: all but the standard library's and
   those that the toplevel's own code refers to are hidden, as in [ocaml] itself. A user's
   module [Types] must not meet the compiler's. *)
let is_visible unit_name =
  let begins prefix = String.starts_with ~prefix unit_name in
  begins "Stdlib" || begins "Camlinternal"
  || List.mem unit_name [ "Std_exit"; "Outcometree"; "Topprinters"; "Topdirs"; "Toploop" ]

let install () =
  let crcs = Symtable.init_toplevel () in
  Symtable.restore_state
    (Symtable.filter_global_map (Symbols.is_visible is_visible) (Symtable.current_state ()));
  Env.reset_cache ();
  Env.import_crcs ~source:Sys.executable_name
    (List.filter (fun (name, _) -> is_visible name) crcs)
