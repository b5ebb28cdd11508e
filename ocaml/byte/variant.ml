let backtrace printed = printed

(* The units that user code may name or load anew: all but the standard library's and
   those that the toplevel's own code refers to are hidden, as in [ocaml] itself. A user's
   module [Types] must not meet the compiler's. *)
let is_visible unit_name =
  let begins prefix = String.starts_with ~prefix unit_name in
  begins "Stdlib" || begins "Camlinternal"
  || List.mem unit_name [ "Std_exit"; "Outcometree"; "Topprinters"; "Topdirs"; "Toploop" ]

let interfaces = ref []

let know_interfaces () =
  Env.reset_cache ();
  Env.import_crcs ~source:Sys.executable_name !interfaces

let install () =
  let crcs = Symtable.init_toplevel () in
  Symtable.restore_state
    (Symtable.filter_global_map (Symbols.is_visible is_visible) (Symtable.current_state ()));
  interfaces := List.filter (fun (name, _) -> is_visible name) crcs;
  know_interfaces ()

let value env path = try Some (Toploop.eval_value_path env path) with _ -> None
let units = ref Symtable.empty_global_map
let remember () = units := Symtable.current_state ()

(* Phrases get the values of names as they begin; code that still runs has its own. *)
let forget_value id = Toploop.setvalue (Translmod.toplevel_name id) (Obj.repr ())

(* Slots are not used again: code that still runs refers to them by number. *)
let forget () =
  Trace.traced_functions := [];
  Symtable.hide_additions !units;
  know_interfaces ()
