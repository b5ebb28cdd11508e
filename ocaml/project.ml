type loaded =
  { units : string list
  ; unchanged : string list
  ; stale : string list
  ; dropped : string list
  ; failure : exn option
  }

exception Does_not_build of string

let is_native = Sys.backend_type = Native

let check folder =
  let is_there name = Sys.file_exists (Filename.concat folder name) in
  if not (is_there "dune-project" || is_there "dune-workspace") then
    raise
      (Archive.Cannot_load
         (Printf.sprintf
            "%s holds no dune-project, so it is not the folder of a dune project; name that with path."
            folder))

(* What dune prints, once it is content. *)
let dune folder arguments =
  match Toolchain.output ([ "dune"; List.hd arguments; "--root"; folder ] @ List.tl arguments) with
  | Ok text -> text
  | Error (127, _) ->
    raise (Does_not_build "the command dune is not there: install it, or put it on the server's PATH")
  | Error (_, reason) -> raise (Does_not_build reason)

(* The lines of "dune top" are directives: #directory "x";; and #load "x";; *)
let arguments directive text =
  List.filter_map
    (fun line ->
      match Scanf.sscanf line "#%s %S" (fun name argument -> name, argument) with
      | name, argument when name = directive -> Some argument
      | _ -> None
      | exception _ -> None)
    (String.split_on_char '\n' text)

let with_extension path extension = Filename.remove_extension path ^ extension

(* The machine code for the bytecode archives that dune names. Of the project's own, dune
   builds archives: shared libraries are not known to every version of it. *)
let machine_code folder archives =
  let build = Filename.concat folder "_build" ^ "/" in
  let is_own path = String.starts_with ~prefix:build path in
  let target path =
    let n = String.length folder + 1 in
    with_extension (String.sub path n (String.length path - n)) ".cmxa"
  in
  (match List.map target (List.filter is_own archives) with
  | [] -> ()
  | targets -> ignore (dune folder ("build" :: targets)));
  List.map
    (fun path ->
      let shared = with_extension path ".cmxs" in
      if (not (is_own path)) && Sys.file_exists shared then shared
      else with_extension path ".cmxa")
    archives

let names units = List.map (fun (unit : Objfile.compilation_unit) -> unit.name) units

(* In the order of dependencies: what has changed, and what uses the interface of what is
   linked again. *)
let to_link files =
  let link linked (file : Archive.file) =
    let uses (unit : Objfile.compilation_unit) =
      List.exists (fun (name, _) -> List.mem name linked) unit.interfaces
    in
    (not (Archive.is_loaded file.digest)) || List.exists uses file.units
  in
  let add (linked, chosen, rest) (file : Archive.file) =
    if link linked file then names file.units @ linked, file :: chosen, rest
    else linked, chosen, file :: rest
  in
  let _, chosen, rest = List.fold_left add ([], [], []) files in
  List.rev chosen, List.rev rest

(* Units whose interfaces are not those that the session knows, or that are gone. *)
let changed_interfaces ~before ~after =
  let known = Env.imports () in
  let differs (name, digest) =
    match digest, List.assoc_opt name known with
    | Some digest, Some (Some other) -> digest <> other
    | _ -> false
  in
  let units = List.concat_map (fun (file : Archive.file) -> file.units) in
  let imports = List.concat_map (fun (u : Objfile.compilation_unit) -> u.interfaces) (units after) in
  let kept = names (units after) in
  let gone = List.filter (fun name -> not (List.mem name kept)) (names (units before)) in
  List.sort_uniq compare (gone @ List.map fst (List.filter differs imports))

let check_replaceable ~before ~changed =
  if (before <> [] || changed <> []) && not Objfile.replaceable then
    raise
      (Archive.Cannot_load
         (Printf.sprintf
            "The session has other versions of what was built (%s), and machine code cannot be \
             taken out of a process: start the server again, or use topup, which can."
            (String.concat ", "
               (List.sort_uniq compare
                  (changed @ List.concat_map (fun (file : Archive.file) -> names file.units) before)))))

(* Types that have changed, and all that knows them, leave the session before anything new
   is linked, and at once: nothing may come between. *)
let drop ~before ~changed =
  Interrupt.armed := false;
  let affected = Archive.users changed in
  let dropped, make_scope = Scope.drop affected in
  let old = List.concat_map (fun (file : Archive.file) -> names file.units) before in
  Archive.withdraw (List.sort_uniq compare (old @ affected));
  make_scope ();
  Interrupt.armed := true;
  dropped

let link files =
  match List.iter (fun (file : Archive.file) -> ignore (Archive.load file.path)) files with
  | () -> Interrupt.armed := false; None
  | exception exn -> Interrupt.armed := false; Some exn

let load folder =
  check folder;
  let text = dune folder [ "top" ] in
  let archives = arguments "load" text in
  let archives = if is_native then machine_code folder archives else archives in
  List.iter Archive.add_directory (arguments "directory" text);
  let after, rest = to_link (List.map Archive.read archives) in
  let before = List.filter_map (fun (file : Archive.file) -> Archive.loaded file.path) after in
  let changed = changed_interfaces ~before ~after in
  check_replaceable ~before ~changed;
  let replaced = List.concat_map (fun (file : Archive.file) -> names file.units) before in
  let users = Archive.users (List.sort_uniq compare (replaced @ changed)) in
  let dropped = if changed = [] then [] else drop ~before ~changed in
  let failure = link after in
  if users <> [] && (failure = None || changed <> []) then Stale.replace users;
  let names = List.concat_map (fun (file : Archive.file) -> names file.units) in
  { units = (if failure = None then names after else [])
  ; unchanged = names rest
  ; stale = Stale.bindings ()
  ; dropped
  ; failure
  }
