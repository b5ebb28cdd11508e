(* What user code, directives and libraries can change of the toplevel itself: each thing
   as a function that takes its present state and returns what restores it. *)

let setting reference () =
  let value = !reference in
  fun () -> reference := value

let flags () =
  let restore =
    List.map
      (fun flag -> setting flag ())
      Clflags.[ recursive_types; classic; principal; strict_sequence; noassert; unsafe; nopervasives ]
  in
  fun () -> List.iter (fun f -> f ()) restore

let warnings () =
  let state = Warnings.backup () in
  fun () -> Warnings.restore state; Warnings.reset_fatal ()

let print_limits () =
  let depth = setting Toploop.max_printer_depth () and steps = setting Toploop.max_printer_steps () in
  fun () -> depth (); steps ()

let out_printers () =
  let value = setting Toploop.print_out_value ()
  and typ = setting Toploop.print_out_type ()
  and class_type = setting Toploop.print_out_class_type ()
  and module_type = setting Toploop.print_out_module_type ()
  and extension = setting Toploop.print_out_type_extension ()
  and item = setting Toploop.print_out_sig_item ()
  and signature = setting Toploop.print_out_signature ()
  and phrase = setting Toploop.print_out_phrase () in
  fun () ->
    value (); typ (); class_type (); module_type (); extension (); item (); signature (); phrase ()

let parsers () =
  let phrase = setting Toploop.parse_toplevel_phrase () and file = setting Toploop.parse_use_file () in
  fun () -> phrase (); file ()

let directives () =
  let table = (Toploop.directive_table [@alert "-deprecated"]) in
  let saved = Hashtbl.copy table in
  fun () ->
    Hashtbl.reset table;
    Hashtbl.iter (Hashtbl.replace table) saved

let formatter () =
  let margin = Format.get_margin ()
  and max_indent = Format.get_max_indent ()
  and max_boxes = Format.get_max_boxes ()
  and ellipsis = Format.get_ellipsis_text ()
  and out = Format.get_formatter_out_functions ()
  and err = Format.pp_get_formatter_out_functions Format.err_formatter () in
  fun () ->
    Format.set_geometry ~max_indent ~margin;
    Format.set_max_boxes max_boxes;
    Format.set_ellipsis_text ellipsis;
    Format.set_formatter_out_functions out;
    Format.pp_set_formatter_out_functions Format.err_formatter err

let load_path () =
  let folders = Folders.all () in
  fun () ->
    let added = List.filter (fun folder -> not (List.mem folder folders)) (Folders.all ()) in
    List.iter Folders.remove added

let directory () =
  match Sys.getcwd () with
  | exception Sys_error _ -> ignore
  | cwd -> fun () -> ( try Sys.chdir cwd with Sys_error _ -> ())

let collector () =
  let parameters = Gc.get () in
  fun () -> Gc.set parameters

let random () =
  let state = Random.get_state () in
  fun () -> Random.set_state (Random.State.copy state)

(* The toplevel cannot list the printers that are installed, so each is noted. *)
let printers = ref []

let note_printers () =
  let table = (Toploop.directive_table [@alert "-deprecated"]) in
  match Hashtbl.find_opt table "install_printer" with
  | Some (Toploop.Directive_ident install) ->
    let noting name =
      install name;
      match Env.find_value_by_name name !Toploop.toplevel_env with
      | path, _ -> printers := path :: !printers
      | exception Not_found -> ()
    in
    Hashtbl.replace table "install_printer" (Toploop.Directive_ident noting)
  | _ -> ()

let remove_printers_that is_unwanted =
  let unwanted, wanted = List.partition is_unwanted !printers in
  List.iter (fun path -> try Toploop.remove_printer path with Not_found -> ()) unwanted;
  printers := wanted

let remove_printers () = remove_printers_that (fun _ -> true)

let restoring = ref []

let remember () =
  note_printers ();
  restoring :=
    List.map
      (fun take -> take ())
      [ flags; setting Clflags.all_ppx; warnings; print_limits; out_printers; parsers; directives
      ; formatter; load_path; directory; collector; random; setting Sys.interactive
      ];
  Variant.remember ();
  Workspace.remember_start ()

let restore () =
  remove_printers ();
  Engine.install ();
  Workspace.forget_values ();
  Variant.forget ();
  Archive.forget ();
  Findlib.forget ();
  Stale.forget ();
  List.iter (fun restore -> restore ()) !restoring;
  Toploop.initialize_toplevel_env ();
  Workspace.remember_start ();
  ignore (Diagnostic.drain ());
  (* It runs finalisers, which are user code. *)
  ignore (Runner.interruptible Gc.full_major)
