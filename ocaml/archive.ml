exception Cannot_load of string
exception Initialiser_raised of string * exn * string

let () =
  Location.register_error_of_exn (function
    | Cannot_load reason -> Some (Location.errorf "%s" reason)
    | _ -> None)

let fail format = Printf.ksprintf (fun reason -> raise (Cannot_load reason)) format
let preferred = List.hd Objfile.extensions
let with_extension path extension = Filename.remove_extension path ^ extension
let other_executable = if Sys.backend_type = Native then "topup" else "topup-opt"

(* The file of the right kind beside one of the wrong kind. *)
let instead path =
  let sibling = with_extension path preferred in
  if Sys.file_exists sibling then Printf.sprintf "load %s, which is there" sibling
  else Printf.sprintf "build and load %s, which is not there" sibling

let wrong_kind path : Magic_number.kind -> string = function
  | Bytecode _ -> Printf.sprintf "is bytecode, for %s; here %s" other_executable (instead path)
  | Machine_code _ ->
    Printf.sprintf "is machine code, for %s; here %s" other_executable (instead path)
  | Interface -> "is an interface, which has no code; " ^ instead path
  | Source ->
    Printf.sprintf "is source, not compiled code; evaluate #use %S, or compile it" path
  | C_code -> "is C or assembler code without OCaml units; " ^ instead path
  | Other ->
    Printf.sprintf "is no compiled OCaml code; give %s"
      (String.concat " or " (List.map (fun e -> "a " ^ e) Objfile.extensions))

let extension : Magic_number.kind -> string = function
  | Bytecode extension | Machine_code extension -> extension
  | Interface | Source | C_code | Other -> ""

(* Files that could have been meant. *)
let candidates folder =
  match Sys.readdir folder with
  | exception Sys_error _ -> Printf.sprintf "; there is no folder %s" folder
  | names -> (
    let fits name = List.mem (Filename.extension name) Objfile.extensions in
    match List.filter fits (List.sort compare (Array.to_list names)) with
    | [] -> Printf.sprintf "; %s holds no %s" folder (String.concat " and no " Objfile.extensions)
    | names ->
      let shown = List.filteri (fun i _ -> i < 10) names in
      Printf.sprintf "; %s holds %s%s" folder (String.concat ", " shown)
        (if List.compare_lengths names shown > 0 then ", …" else ""))

let check_kind path =
  if not (Sys.file_exists path) then
    fail "There is no file %s%s." path (candidates (Filename.dirname path));
  if Sys.is_directory path then fail "%s is a folder, not a file%s." path (candidates path);
  match Magic_number.kind path with
  | exception Sys_error reason -> fail "Cannot read %s." reason
  | kind when List.mem (extension kind) Objfile.extensions -> ()
  | kind -> fail "%s %s." path (wrong_kind path kind)

type file =
  { path : string
  ; digest : Digest.t
  ; units : Objfile.compilation_unit list
  }

(* What was loaded since the last reset, by path. *)
let files : (string, file) Hashtbl.t = Hashtbl.create 16
let loaded path = Hashtbl.find_opt files path
let is_loaded digest = Hashtbl.fold (fun _ file found -> found || file.digest = digest) files false
let names units = List.map (fun (unit : Objfile.compilation_unit) -> unit.name) units

let source unit_name =
  Hashtbl.fold
    (fun path file found -> if List.mem unit_name (names file.units) then Some path else found)
    files None

let in_session = "the session"

(* The file of a unit in the load path, by the first of the extensions that there is. *)
let unit_file extensions name =
  let found extension =
    match Compat.find_unit_file (name ^ extension) with
    | file -> Some file
    | exception Not_found -> None
  in
  List.find_map found extensions

let check_missing path file =
  let where name =
    match unit_file Objfile.extensions name with
    | Some file -> Printf.sprintf "%s (%s)" name file
    | None -> name
  in
  match Objfile.missing file with
  | [] -> ()
  | names ->
    fail
      "%s needs what is not loaded: %s. Load the library that holds it first, or #require \
       its package, which does both."
      path
      (String.concat ", " (List.map where names))

(* The compiler's table of interfaces has what it had before if [f] fails. *)
let with_interfaces path units f =
  let before = Env.imports () in
  try
    List.iter
      (fun (unit : Objfile.compilation_unit) -> Env.import_crcs ~source:path unit.interfaces)
      units;
    f ()
  with exn ->
    Interrupt.armed := false;
    Env.reset_cache ();
    Env.import_crcs ~source:in_session before;
    (match exn with
    | Persistent_env.Consistbl.Inconsistency { unit_name; original_source; _ } ->
      let other = Option.value (source unit_name) ~default:original_source in
      fail
        "%s and %s were compiled with different interfaces of %s. Compile them again \
         together; if it is the session that has the old one, reset it first."
        path other unit_name
    | exn -> raise exn)

(* Dropped first: the compiler lists a folder's files only once. *)
let add_directory folder =
  let armed = !Interrupt.armed in
  Interrupt.armed := false;
  Folders.remove folder;
  Topdirs.dir_directory folder;
  let parent = Filename.dirname folder in
  List.iter
    (fun place ->
      let stubs = Filename.concat place "stublibs" in
      if Sys.file_exists stubs then Objfile.add_directory stubs)
    [ Filename.dirname parent; parent; folder ];
  Objfile.add_directory folder;
  Interrupt.armed := armed

(* dune keeps the interfaces of a library in a folder of their own beside its archive. *)
let interface_folders path units =
  let folder = Filename.dirname path in
  let objects name =
    let place = Filename.concat (Filename.concat folder name) "byte" in
    let holds (unit : Objfile.compilation_unit) =
      Sys.file_exists (Filename.concat place (String.uncapitalize_ascii unit.name ^ ".cmi"))
    in
    if String.starts_with ~prefix:"." name && List.exists holds units then Some place else None
  in
  match Sys.readdir folder with
  | names -> List.filter_map objects (Array.to_list names)
  | exception Sys_error _ -> []

(* [f] with the folder of [path] on the load path, where it stays unless [f] fails. *)
let with_directory_of path f =
  let folder = Filename.dirname path in
  let is_new = not (List.mem folder (Folders.all ())) in
  let before = !Toploop.toplevel_env in
  add_directory folder;
  try f ()
  with exn ->
    Interrupt.armed := false;
    if is_new then begin
      Folders.remove folder;
      Toploop.toplevel_env := before
    end;
    raise exn

(* Code that stays in the process is not run again, but the printers that it brought are
   wanted again after a reset. *)
let printers : (Digest.t, Longident.t list) Hashtbl.t = Hashtbl.create 4
let installed = ref []

let directives = (Toploop.directive_table [@alert "-deprecated"])

let install_printer name =
  match Hashtbl.find_opt directives "install_printer" with
  | Some (Toploop.Directive_ident install) -> install name
  | _ -> ()

let note_printers () =
  match Hashtbl.find_opt directives "install_printer" with
  | Some (Toploop.Directive_ident install) ->
    let noting name = install name; installed := name :: !installed in
    Hashtbl.replace directives "install_printer" (Toploop.Directive_ident noting)
  | _ -> ()

let with_printers digest ~resident link =
  if resident then
    List.iter install_printer (Option.value (Hashtbl.find_opt printers digest) ~default:[])
  else begin
    installed := [];
    link ();
    Hashtbl.replace printers digest (List.rev !installed)
  end

let with_file path f =
  check_kind path;
  match Objfile.with_file path f with
  | result -> result
  | exception Objfile.Unusable problem -> fail "%s %s." path problem
  | exception Objfile.Raised (exn, backtrace) -> raise (Initialiser_raised (path, exn, backtrace))
  | exception (End_of_file | Failure _) -> fail "%s is damaged; build it again." path

let read path =
  let units = with_file path Objfile.units in
  { path; digest = Objfile.digest path; units }

(* Interrupts end where the file is in place or is being taken back; those that come later
   are for what follows. *)
let link path =
  let armed = !Interrupt.armed in
  with_file path (fun code ->
      let file = { path; digest = Objfile.digest path; units = Objfile.units code } in
      let resident = Objfile.is_resident code in
      if not resident then check_missing path code;
      List.iter add_directory (interface_folders path file.units);
      with_directory_of path (fun () ->
          with_interfaces path file.units (fun () ->
              with_printers file.digest ~resident (fun () -> Objfile.link code)));
      Interrupt.armed := false;
      Hashtbl.replace files path file;
      Objfile.admit (names file.units);
      Interrupt.armed := armed;
      names file.units)

(* What no phrase of the log brings back. *)
let loaded_by_hand = ref []
let by_hand () = List.rev !loaded_by_hand

let load path =
  let names = link path in
  if not (List.mem path !loaded_by_hand) then loaded_by_hand := path :: !loaded_by_hand;
  names

let require path =
  if not (Sys.file_exists path && is_loaded (Objfile.digest path)) then ignore (link path)

(* As the compiler's own directives look for it. *)
let find name =
  match Load_path.find name with
  | path -> if Filename.is_relative path then Filename.concat (Sys.getcwd ()) path else path
  | exception Not_found ->
    fail "Cannot find file %s.\n(looked in the load path and in the current directory, %s)" name
      (Sys.getcwd ())

let rec load_with_needs path =
  check_kind path;
  let missing =
    try Objfile.with_file path Objfile.missing with Objfile.Unusable _ | Failure _ | End_of_file -> []
  in
  List.iter (fun name -> Option.iter load_with_needs (unit_file (List.rev Objfile.extensions) name)) missing;
  ignore (load path)

let install () =
  note_printers ();
  let replace name load = Hashtbl.replace directives name (Toploop.Directive_string load) in
  replace "load" (fun name -> ignore (load (find name)));
  replace "load_rec" (fun name -> load_with_needs (find name));
  (* The compiler's own prints past the formatter. *)
  let show () = List.iter (Format.printf "%s@.") (Folders.all ()) in
  Hashtbl.replace directives "show_dirs" (Toploop.Directive_none show)

let users unit_names =
  let rec closure known =
    let uses (unit : Objfile.compilation_unit) =
      List.exists (fun (name, _) -> List.mem name known) unit.interfaces
    in
    let more =
      Hashtbl.fold (fun _ file found -> List.filter uses file.units @ found) files []
      |> names
      |> List.filter (fun name -> not (List.mem name known))
    in
    if more = [] then known else closure (List.sort_uniq compare more @ known)
  in
  closure unit_names

let withdraw unit_names =
  let interfaces = List.filter (fun (name, _) -> not (List.mem name unit_names)) (Env.imports ()) in
  Objfile.hide unit_names;
  Hashtbl.filter_map_inplace
    (fun _ file ->
      if List.exists (fun name -> List.mem name unit_names) (names file.units) then None
      else Some file)
    files;
  Env.reset_cache ();
  Env.import_crcs ~source:in_session interfaces

let forget () =
  Hashtbl.reset files;
  loaded_by_hand := [];
  Objfile.dismiss_all ();
  List.iter
    (fun (unit : Objfile.compilation_unit) -> Env.import_crcs ~source:in_session unit.interfaces)
    (Objfile.resident ())
