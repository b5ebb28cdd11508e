type t =
  { name : string
  ; kind : string
  ; typ : string
  ; location : string option
  ; value_preview : string option
  ; doc : string option
  ; also : (string * string) list
  ; interrupted : bool
  }

type definition =
  { kind : string
  ; path : Path.t option  (* for constructors and fields that of their type *)
  ; loc : Location.t
  ; attributes : Parsetree.attributes
  ; uid : Types.Uid.t
  ; print : unit -> string
  ; value : Types.value_description option
  }

(* What a directive like #show_module prints. *)
let shown directive name () =
  match Hashtbl.find_opt (Toploop.directive_table [@alert "-deprecated"]) directive with
  | Some (Directive_ident show) -> snd (Runner.capturing (fun () -> show name))
  | _ -> ""

let value env name =
  let path, (d : Types.value_description) = Env.find_value_by_name name env in
  { kind = "value"
  ; path = Some path
  ; loc = d.val_loc
  ; attributes = d.val_attributes
  ; uid = d.val_uid
  ; print = (fun () -> Visible.scheme env d.val_type)
  ; value = Some d
  }

let declared env path () =
  match path with
  | None -> ""
  | Some path -> Visible.declaration env path (Env.find_type path env)

let constructor env name =
  let d = Env.find_constructor_by_name name env in
  let result = d.cstr_res in
  let is_exception = Visible.is_exception env result in
  let path = Visible.type_path result in
  let path, print =
    match d.cstr_tag with
    | Cstr_extension (path, _) ->
      Some path, shown (if is_exception then "show_exception" else "show_constructor") name
    | _ -> path, declared env path
  in
  { kind = (if is_exception then "exception" else "constructor")
  ; path
  ; loc = d.cstr_loc
  ; attributes = d.cstr_attributes
  ; uid = d.cstr_uid
  ; print
  ; value = None
  }

let field env name =
  let d = Env.find_label_by_name name env in
  let path = Visible.type_path d.lbl_res in
  { kind = "field"
  ; path
  ; loc = d.lbl_loc
  ; attributes = d.lbl_attributes
  ; uid = d.lbl_uid
  ; print = declared env path
  ; value = None
  }

let other kind print path loc attributes uid =
  { kind; path = Some path; loc; attributes; uid; print; value = None }

let typ env name =
  let path, (d : Types.type_declaration) = Env.find_type_by_name name env in
  let print = declared env (Some path) in
  other "type" print path d.type_loc d.type_attributes d.type_uid

let modul env name =
  let path, (d : Types.module_declaration) = Env.find_module_by_name name env in
  other "module" (shown "show_module" name) path d.md_loc d.md_attributes d.md_uid

let module_type env name =
  let path, (d : Types.modtype_declaration) = Env.find_modtype_by_name name env in
  other "module type" (shown "show_module_type" name) path d.mtd_loc d.mtd_attributes d.mtd_uid

let ident path = Ident.create_persistent (Path.last path)

let clas env name =
  let path, (d : Types.class_declaration) = Env.find_class_by_name name env in
  let print () = Visible.printed env (Printtyp.class_declaration (ident path)) d in
  other "class" print path d.cty_loc d.cty_attributes d.cty_uid

let class_type env name =
  let path, (d : Types.class_type_declaration) = Env.find_cltype_by_name name env in
  let print () = Visible.printed env (Printtyp.cltype_declaration (ident path)) d in
  other "class type" print path d.clty_loc d.clty_attributes d.clty_uid

(* The declaration of a class also makes a class type and a type. *)
let without_companions definitions =
  let has kind = List.exists (fun d -> d.kind = kind) definitions in
  let is_companion = function
    | "type" -> has "class" || has "class type"
    | "class type" -> has "class"
    | _ -> false
  in
  List.filter (fun d -> not (is_companion d.kind)) definitions

let definitions env name =
  [ value; constructor; clas; class_type; typ; field; modul; module_type ]
  |> List.filter_map (fun find -> try Some (find env name) with Not_found -> None)
  |> without_companions

(* A module that is a unit of a library, or another name for one. *)
let unit_of_module env definition =
  match definition with
  | { kind = "module"; path = Some path; loc; _ }
    when loc.loc_start.pos_fname <> Diagnostic.input_name -> (
    match Env.normalize_module_path None env path with
    | Path.Pident id when Ident.persistent id -> Some (Ident.name id)
    | _ -> None
    | exception _ -> None)
  | _ -> None

let place (first : Lexing.position) (last : Lexing.position) =
  let column (p : Lexing.position) = p.pos_cnum - p.pos_bol in
  let lines =
    if first.pos_lnum = last.pos_lnum then Printf.sprintf "line %d" first.pos_lnum
    else Printf.sprintf "lines %d-%d" first.pos_lnum last.pos_lnum
  in
  Printf.sprintf "%s, characters %d-%d" lines (column first) (column last)

(* As a place in the phrase's own text, which the log has, not in the source that it came
   with. *)
let within (start : Lexing.position) (position : Lexing.position) =
  let indent = if position.pos_lnum = start.pos_lnum then start.pos_cnum - start.pos_bol else 0 in
  { position with
    pos_lnum = position.pos_lnum - start.pos_lnum + 1
  ; pos_bol = position.pos_bol + indent
  }

(* A unit's files were compiled somewhere else and installed beside its interface. *)
let installed unit_name file =
  let beside =
    match Option.bind unit_name Documentation.interface with
    | Some path -> [ Filename.concat (Filename.dirname path) (Filename.basename file) ]
    | None -> []
  in
  let absolute = if Filename.is_relative file then [] else [ file ] in
  Option.value (List.find_opt Sys.file_exists (absolute @ beside)) ~default:file

(* Stdlib__List is made of list.ml. *)
let file_of_unit unit_name =
  let length = String.length unit_name in
  let rec own_part i =
    if i < 2 then 0
    else if unit_name.[i - 1] = '_' && unit_name.[i - 2] = '_' then i
    else own_part (i - 1)
  in
  let first = own_part (length - 1) in
  let base = String.uncapitalize_ascii (String.sub unit_name first (length - first)) in
  List.map (fun suffix -> installed (Some unit_name) (base ^ suffix)) [ ".mli"; ".ml" ]
  |> List.find_opt Sys.file_exists

let origin definition =
  Option.bind definition.path (fun path -> Workspace.origin (List.hd (Path.heads path)))

let location env definition =
  let first = definition.loc.loc_start and last = definition.loc.loc_end in
  let unit_name = Typing.unit_of definition.uid in
  match unit_of_module env definition, origin definition with
  | Some unit_name, _ ->
    Option.map (fun file -> Printf.sprintf "File %S, line 1" file) (file_of_unit unit_name)
  | None, _ when first.pos_lnum < 1 || first.pos_fname = "_none_" -> None
  | None, Some { number; start; _ } when first.pos_fname = Diagnostic.input_name ->
    Some (Printf.sprintf "phrase %d, %s" number (place (within start first) (within start last)))
  | None, None when first.pos_fname = Diagnostic.input_name -> Some (place first last)
  | None, _ ->
    Some (Printf.sprintf "File %S, %s" (installed unit_name first.pos_fname) (place first last))

let doc env definition =
  let own () =
    let at (loc, _) = loc.Location.loc_start = definition.loc.loc_start in
    Option.bind (origin definition) (fun (phrase : Workspace.phrase) ->
        Option.map snd (List.find_opt at phrase.docs))
  in
  let installed () =
    match unit_of_module env definition, Typing.unit_of definition.uid with
    | Some unit_name, _ -> Documentation.of_unit unit_name
    | None, Some unit_name when unit_name <> "" ->
      Documentation.of_definition ~unit_name definition.loc
    | None, _ -> None
  in
  let first found next = match found with Some _ -> found | None -> next () in
  first (first (Documentation.of_attributes definition.attributes) own) installed

let preview_length = 200
let preview_depth = 10
let preview_steps = 60

let shortened text =
  if String.length text <= preview_length then text
  else begin
    let rec boundary i = if Char.code text.[i] land 0xC0 = 0x80 then boundary (i - 1) else i in
    String.sub text 0 (boundary preview_length) ^ "…"
  end

(* Printers are user code. *)
let preview env definition =
  match definition with
  | { path = Some path; value = Some { val_kind = Val_reg; val_type; _ }; _ } -> (
    match Variant.value env path with
    | None -> None, false
    | Some value ->
      let print ppf () = Toploop.print_value env value ppf val_type in
      let limited () =
        Misc.protect_refs
          [ R (Toploop.max_printer_depth, min preview_depth !Toploop.max_printer_depth)
          ; R (Toploop.max_printer_steps, min preview_steps !Toploop.max_printer_steps)
          ]
          (fun () -> shortened (Diagnostic.text print ()))
      in
      let text = Result.to_option (Runner.interruptible limited) in
      if Interrupt.raised () then None, true else text, false)
  | _ -> None, false

let described env name definition others =
  let value_preview, interrupted = preview env definition in
  { name
  ; kind = definition.kind
  ; typ = definition.print ()
  ; location = location env definition
  ; value_preview
  ; doc = doc env definition
  ; also = List.map (fun d -> d.kind, d.print ()) others
  ; interrupted
  }

let find text =
  let env = !Toploop.toplevel_env in
  Interrupt.forget ();
  let found =
    match Name.parse text with
    | Error _ as error -> error
    | Ok name -> (
      match definitions env name with
      | definition :: others -> Ok (described env (String.trim text) definition others)
      | [] -> Error (Name.missing env text)
      | exception exn ->
        let texts = List.map (fun (d : Diagnostic.t) -> d.text) (Runner.describe exn) in
        Error (String.concat "\n" texts))
  in
  ignore (Diagnostic.drain ());
  found
