type t =
  { path : string
  ; digest : Digest.t
  ; shared : string  (* what [dlopen] gets a copy of *)
  ; code : Cmxs_format.dynunit list
  }

type compilation_unit =
  { name : string
  ; interfaces : (string * Digest.t option) list
  }

exception Unusable of string
exception Raised of exn * string

let extensions = [ ".cmxs"; ".cmxa"; ".cmx" ]
let unusable format = Printf.ksprintf (fun problem -> raise (Unusable problem)) format
let compilation_unit (code : Cmxs_format.dynunit) =
  { name = code.dynu_name; interfaces = code.dynu_imports_cmi }

let units file = List.map compilation_unit file.code

let check_number number ~wanted =
  Option.iter (fun problem -> raise (Unusable problem)) (Magic_number.problem number ~wanted)

(* Read where the linker put it, so that nothing of the file gets into the process yet. *)
let header path =
  match Binutils.read path with
  | Error error -> unusable "is no shared library: %s" (Binutils.error_to_string error)
  | Ok library -> (
    match Binutils.symbol_offset library "caml_plugin_header" with
    | None -> unusable "is a shared library, but not one of OCaml; build it with ocamlopt -shared"
    | Some offset ->
      let ic = open_in_bin path in
      Fun.protect
        ~finally:(fun () -> close_in_noerr ic)
        (fun () ->
          LargeFile.seek_in ic offset;
          (input_value ic : Cmxs_format.dynheader)))

(* Archives and unit descriptions have their code in a file of its own. *)
let digest path =
  let beside extension =
    let file = Filename.remove_extension path ^ extension in
    if Sys.file_exists file then Digest.file file else ""
  in
  let code =
    match Filename.extension path with
    | ".cmxa" -> beside Config.ext_lib
    | ".cmx" -> beside Config.ext_obj
    | _ -> ""
  in
  if code = "" then Digest.file path else Digest.string (Digest.file path ^ code)

let read path ~shared =
  let { Cmxs_format.dynu_magic; dynu_units } = header shared in
  check_number dynu_magic ~wanted:Config.cmxs_magic_number;
  { path; digest = digest path; shared; code = dynu_units }

let remove file = try Sys.remove file with Sys_error _ -> ()

let with_temporary f =
  let file = Filename.temp_file "topup" ".cmxs" in
  Fun.protect ~finally:(fun () -> remove file) (fun () -> f file)

(* All of it, and nothing that an earlier call asked the linker for. *)
let link_shared path shared =
  Asmlink.reset ();
  Misc.protect_refs
    [ R (Clflags.link_everything, true); R (Clflags.ccobjs, []); R (Clflags.all_ccopts, []) ]
    (fun () ->
      let print ppf () = Asmlink.link_shared ~ppf_dump:ppf [ path ] shared in
      ignore (Diagnostic.text print ()))

let with_file path f =
  match Magic_number.kind path with
  | Machine_code ".cmxs" -> f (read path ~shared:path)
  | kind ->
    let wanted =
      if kind = Machine_code ".cmx" then Config.cmx_magic_number else Config.cmxa_magic_number
    in
    check_number (Magic_number.read path) ~wanted;
    with_temporary (fun shared ->
        (match link_shared path shared with
        | () -> ()
        | exception (Asmlink.Error _ as exn) ->
          unusable "cannot be made a shared library: %s"
            (Option.fold (Diagnostic.of_exn exn) ~none:"" ~some:(fun (d : Diagnostic.t) ->
                 d.diagnostic.message)));
        f (read path ~shared))

type global_map =
  { name : string
  ; crc_intf : Digest.t option
  ; crc_impl : Digest.t option
  ; syms : string list
  }
[@@warning "-69"]

external executable_units : unit -> global_map list = "caml_natdynlink_getmap"

(* The description of a unit that the compiler may rely on; none if it is not that of the
   very code that is linked. *)
let description (code : Cmxs_format.dynunit) =
  match Compilenv.read_unit_info (Compat.find_unit_file (code.dynu_name ^ ".cmx")) with
  | description, digest when digest = code.dynu_crc -> Some description
  | _ -> None
  | exception _ -> None

(* What is in the process for good: the executable's units, and what was linked since. A
   unit whose initialiser failed is there, too, and can neither be used nor replaced. *)
type state =
  | Part_of_executable of Digest.t option
  | Linked of
      { code : Cmxs_format.dynunit
      ; file : t
      ; description : Cmx_format.unit_infos option
      }
  | Failed

let known : (string, state) Hashtbl.t Lazy.t =
  lazy
    (let table = Hashtbl.create 512 in
     List.iter
       (fun { name; crc_impl; _ } -> Hashtbl.replace table name (Part_of_executable crc_impl))
       (executable_units ());
     table)

let find name = Hashtbl.find_opt (Lazy.force known) name

let implementation = function
  | Part_of_executable digest -> digest
  | Linked { code; _ } -> Some code.dynu_crc
  | Failed -> None

(* Units that user code linked with [Dynlink] itself count, too. *)
let is_there name = find name <> None || List.mem name (Dynlink.all_units ())

let missing file =
  let own = List.map (fun (code : Cmxs_format.dynunit) -> code.dynu_name) file.code in
  List.concat_map (fun (code : Cmxs_format.dynunit) -> List.map fst code.dynu_imports_cmx) file.code
  |> List.sort_uniq compare
  |> List.filter (fun name -> not (List.mem name own || is_there name))

let for_good = "machine code cannot be taken out of a process, so this needs a new one: start the server again"

let check_failed (code : Cmxs_format.dynunit) =
  if find code.dynu_name = Some Failed then
    unusable "holds the unit %s, whose initialiser failed before; %s" code.dynu_name for_good

(* Equal descriptions may stand for different code, so a file must be the very same one. *)
let is_same file (code : Cmxs_format.dynunit) =
  match find code.dynu_name with
  | Some (Linked { file = other; _ }) -> file.digest = other.digest
  | Some (Part_of_executable digest) -> digest = Some code.dynu_crc
  | Some Failed | None -> false

let is_resident file =
  List.iter check_failed file.code;
  let there, rest =
    List.partition (fun (code : Cmxs_format.dynunit) -> is_there code.dynu_name) file.code
  in
  match List.find_opt (fun code -> not (is_same file code)) there with
  | Some { dynu_name; _ } -> (
    match find dynu_name with
    | Some (Part_of_executable _) ->
      unusable "holds the unit %s, and a unit of that name is part of topup-opt itself; rename it" dynu_name
    | Some (Linked { file = other; _ }) ->
      unusable "holds the unit %s, and another version of it is loaded (from %s); %s" dynu_name
        other.path for_good
    | _ -> unusable "holds the unit %s, and one of that name is loaded; %s" dynu_name for_good)
  | None when there = [] -> false
  | None when rest = [] -> true
  | None ->
    let names units =
      String.concat ", " (List.map (fun (c : Cmxs_format.dynunit) -> c.dynu_name) units)
    in
    unusable "holds units that are loaded (%s) beside new ones (%s); %s" (names there) (names rest) for_good

let resident () =
  Hashtbl.fold
    (fun _ state found ->
      match state with
      | Linked { code; _ } -> compilation_unit code :: found
      | Part_of_executable _ | Failed -> found)
    (Lazy.force known) []

(* The compiler reads descriptions from the load path, where those of later builds may be by
   now: code that is specialised for them and runs with the old would be wrong. *)
let describe_resident () =
  Hashtbl.iter
    (fun name state ->
      match state with
      | Linked { description = Some description; _ } -> Compilenv.cache_unit_info description
      | Linked { description = None; _ } -> Env.register_import_as_opaque name
      | Part_of_executable _ | Failed -> ())
    (Lazy.force known)

let () = Loader.before_compilation := describe_resident

(* Stubs are in the shared library itself. *)
let add_directory _ = ()

let check_implementations file =
  let check (name, wanted) =
    match find name with
    | Some Failed -> unusable "needs the unit %s, whose initialiser failed; %s" name for_good
    | Some state when wanted <> None && implementation state <> wanted ->
      unusable "was compiled with another version of the unit %s than is loaded; compile it again" name
    | _ -> ()
  in
  List.iter (fun (code : Cmxs_format.dynunit) -> List.iter check code.dynu_imports_cmx) file.code

let copy path target =
  let ic = open_in_bin path and oc = open_out_bin target in
  Fun.protect
    ~finally:(fun () -> close_in_noerr ic; close_out_noerr oc)
    (fun () ->
      let buffer = Bytes.create 65536 in
      let rec go () =
        match input ic buffer 0 (Bytes.length buffer) with
        | 0 -> ()
        | n -> output oc buffer 0 n; go ()
      in
      go ())

let set state (code : Cmxs_format.dynunit) =
  Hashtbl.replace (Lazy.force known) code.dynu_name (state code)

(* "/tmp/x.cmxs: undefined symbol: f" names a file that nobody knows. *)
let reason shared exn =
  let text = match exn with Failure text -> text | exn -> Printexc.to_string exn in
  let prefix = shared ^ ": " in
  let n = String.length prefix in
  if String.starts_with ~prefix text then String.sub text n (String.length text - n) else text

(* Of a copy: the file may be written anew while its code runs, and the dynamic linker
   knows a library again by its name. *)
let link file =
  check_implementations file;
  with_temporary (fun shared ->
      copy file.shared shared;
      Toploop.may_trace := true;
      match Dynlink.loadfile shared with
      | () ->
        Interrupt.armed := false;
        Toploop.may_trace := false;
        List.iter (set (fun code -> Linked { code; file; description = description code })) file.code
      | exception exn -> (
        Interrupt.armed := false;
        Toploop.may_trace := false;
        match exn with
        | Dynlink.Error (Cannot_open_dynamic_library exn) ->
          unusable "cannot be linked: %s" (reason shared exn)
        | exn -> (
          let there = Dynlink.all_units () in
          let is_there (code : Cmxs_format.dynunit) = List.mem code.dynu_name there in
          List.iter (set (fun _ -> Failed)) (List.filter is_there file.code);
          match exn with
          | Dynlink.Error (Library's_module_initializers_failed exn) ->
            (* The backtrace ends at the runtime: nothing of user code is in it. *)
            raise (Raised (exn, ""))
          | Dynlink.Error error -> unusable "cannot be linked: %s" (Dynlink.error_message error)
          | exn -> raise exn)))

let replaceable = false
let hide _ = ()

let outside : (string, unit) Hashtbl.t = Hashtbl.create 16

let dismiss_all () =
  List.iter (fun (unit : compilation_unit) -> Hashtbl.replace outside unit.name ()) (resident ())

let admit names = List.iter (Hashtbl.remove outside) names
let () = Loader.is_outside := Hashtbl.mem outside
