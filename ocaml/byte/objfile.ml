type t =
  { path : string
  ; libraries : string list  (* of C stubs *)
  ; code : Cmo_format.compilation_unit list
  }

type compilation_unit =
  { name : string
  ; interfaces : (string * Digest.t option) list
  }

exception Unusable of string
exception Raised of exn * string

let extensions = [ ".cma"; ".cmo" ]

let with_channel path f =
  let ic = open_in_bin path in
  Fun.protect ~finally:(fun () -> close_in_noerr ic) (fun () -> f ic)

let read path =
  with_channel path (fun ic ->
      let number = really_input_string ic (String.length Config.cmo_magic_number) in
      seek_in ic (input_binary_int ic);
      if number = Config.cmo_magic_number then
        { path; libraries = []; code = [ (input_value ic : Cmo_format.compilation_unit) ] }
      else
        let library : Cmo_format.library = input_value ic in
        { path
        ; libraries = List.map Dll.extract_dll_name library.lib_dllibs
        ; code = library.lib_units
        })

let check_number path =
  let wanted =
    match Magic_number.kind path with
    | Bytecode ".cmo" -> Config.cmo_magic_number
    | _ -> Config.cma_magic_number
  in
  Option.iter
    (fun problem -> raise (Unusable problem))
    (Magic_number.problem (Magic_number.read path) ~wanted)

let with_file path f = check_number path; f (read path)

let digest = Digest.file

let units file =
  List.map
    (fun (code : Cmo_format.compilation_unit) ->
      { name = Symbols.unit_name code; interfaces = code.cu_imports })
    file.code

let missing file =
  let missing_of (defined, missing) code =
    (* A packed unit defines, and refers to, its members. *)
    let defined = Symbols.defined code @ defined in
    let is_there name = List.mem name defined || Symbols.is_defined name in
    ( defined
    , List.rev_append (List.filter (fun name -> not (is_there name)) (Symbols.required code)) missing )
  in
  snd (List.fold_left missing_of ([], []) file.code) |> List.sort_uniq compare

(* Bytecode can be linked again and again. *)
let is_resident _ = false
let resident () = []
let add_directory folder = Dll.remove_path [ folder ]; Dll.add_path [ folder ]

let open_library name =
  try Dll.open_dlls For_execution [ name ]
  with Failure reason ->
    raise
      (Unusable
         (Printf.sprintf "needs the library of C stubs %s, which cannot be loaded: %s" name reason))

let run closure =
  let recorded = Printexc.backtrace_status () in
  Printexc.record_backtrace true;
  Toploop.may_trace := true;
  match closure () with
  | (_ : Obj.t) ->
    Toploop.may_trace := false;
    Printexc.record_backtrace recorded
  | exception exn ->
    Interrupt.armed := false;
    Toploop.may_trace := false;
    let backtrace = Printexc.get_backtrace () in
    Printexc.record_backtrace recorded;
    raise (Raised (exn, backtrace))

let patch code (descriptor : Cmo_format.compilation_unit) =
  try Symtable.patch_object code descriptor.cu_reloc
  with Symtable.Error (Unavailable_primitive name) ->
    raise
      (Unusable
         (Printf.sprintf
            "needs the C function %s, which neither the runtime nor its libraries of stubs \
             define; an archive (.cma) names its library, a .cmo does not" name))

let link_unit ic (descriptor : Cmo_format.compilation_unit) =
  seek_in ic descriptor.cu_pos;
  let code = Symbols.code ic descriptor in
  patch code descriptor;
  Symtable.update_global_table ();
  let events =
    if descriptor.cu_debug = 0 then [||]
    else begin
      seek_in ic descriptor.cu_debug;
      [| (input_value ic : Instruct.debug_event list) |]
    end
  in
  let _, closure = Meta.reify_bytecode code events None in
  run closure

let link file =
  List.iter open_library file.libraries;
  let before = Symtable.current_state () in
  try with_channel file.path (fun ic -> List.iter (link_unit ic) file.code)
  with exn ->
    Interrupt.armed := false;
    (* Not [restore_state]: the slots of what ran would be given out again, and code that
       an initialiser left behind, in a reference say, still uses them. *)
    Symtable.hide_additions before;
    raise exn

let replaceable = true

(* Only the names go: the slots are not used again. *)
let hide unit_names =
  let is_visible name = not (List.mem name unit_names) in
  Symtable.restore_state
    (Symtable.filter_global_map (Symbols.is_visible is_visible) (Symtable.current_state ()))
let dismiss_all = ignore
let admit = ignore
