let is_blank line = String.trim line = ""

let indentation line =
  let rec from i = if i < String.length line && line.[i] = ' ' then from (i + 1) else i in
  from 0

let normalized text =
  match String.split_on_char '\n' (String.trim text) with
  | [] -> ""
  | first :: rest ->
    let least =
      List.fold_left
        (fun least line -> if is_blank line then least else min least (indentation line))
        max_int rest
    in
    let shifted line =
      if is_blank line then "" else String.sub line least (String.length line - least)
    in
    String.concat "\n" (first :: List.map shifted rest)

let comment names (attribute : Parsetree.attribute) =
  match attribute.attr_payload with
  | PStr [ { pstr_desc = Pstr_eval (text, _); _ } ] when List.mem attribute.attr_name.txt names ->
    Option.map normalized (Typing.string_literal text)
  | _ -> None

let of_attributes attributes =
  match List.filter_map (comment [ "ocaml.doc"; "doc" ]) attributes with
  | [] -> None
  | comments -> Some (String.concat "\n\n" comments)

let of_values phrase =
  let found = ref [] in
  let value_binding iterator (binding : Parsetree.value_binding) =
    let rec names (pattern : Parsetree.pattern) =
      match pattern.ppat_desc with
      | Ppat_var _ -> [ pattern.ppat_loc ]
      | Ppat_constraint (pattern, _) -> names pattern
      | _ -> []
    in
    Option.iter
      (fun text -> List.iter (fun loc -> found := (loc, text) :: !found) (names binding.pvb_pat))
      (of_attributes binding.pvb_attributes);
    Ast_iterator.default_iterator.value_binding iterator binding
  in
  (match (phrase : Parsetree.toplevel_phrase) with
  | Ptop_def structure ->
    let iterator = { Ast_iterator.default_iterator with value_binding } in
    iterator.structure iterator structure
  | Ptop_dir _ -> ());
  !found

let interface unit_name =
  let find name = try Some (Load_path.find (name ^ ".cmi")) with Not_found -> None in
  match find unit_name with
  | Some path -> Some path
  | None -> find (String.uncapitalize_ascii unit_name)

let read path =
  (* Unmarshalling what is damaged can fail in any way. *)
  if Sys.file_exists path then try Some (Cmt_format.read_cmt path) with _ -> None else None

let annotations unit_name =
  let beside path =
    let without = Filename.remove_extension path in
    match read (without ^ ".cmti") with
    | Some infos -> Some infos.cmt_annots
    | None -> Option.map (fun (i : Cmt_format.cmt_infos) -> i.cmt_annots) (read (without ^ ".cmt"))
  in
  Option.bind (interface unit_name) beside

exception Found of Parsetree.attributes

let same (a : Location.t) (b : Location.t) =
  a.loc_start.pos_cnum = b.loc_start.pos_cnum
  && Filename.basename a.loc_start.pos_fname = Filename.basename b.loc_start.pos_fname

(* Raises [Found] at the definition whose place is [loc]. *)
let searching loc =
  let look there attributes = if same loc there then raise (Found attributes) in
  let super = Tast_iterator.default_iterator in
  let type_declaration self (d : Typedtree.type_declaration) =
    (match d.typ_kind with
    | Ttype_variant constructors ->
      List.iter
        (fun (c : Typedtree.constructor_declaration) ->
          look c.cd_loc c.cd_attributes;
          match c.cd_args with
          | Cstr_record labels ->
            List.iter (fun (l : Typedtree.label_declaration) -> look l.ld_loc l.ld_attributes) labels
          | Cstr_tuple _ -> ())
        constructors
    | Ttype_record labels ->
      List.iter (fun (l : Typedtree.label_declaration) -> look l.ld_loc l.ld_attributes) labels
    | _ -> ());
    look d.typ_loc d.typ_attributes;
    super.type_declaration self d
  in
  { super with
    type_declaration
  ; value_description =
      (fun self d -> look d.val_loc d.val_attributes; super.value_description self d)
  ; value_binding =
      (fun self b -> look b.vb_pat.pat_loc b.vb_attributes; super.value_binding self b)
  ; extension_constructor =
      (fun self c -> look c.ext_loc c.ext_attributes; super.extension_constructor self c)
  ; module_declaration =
      (fun self d -> look d.md_loc d.md_attributes; super.module_declaration self d)
  ; module_binding =
      (fun self b -> look b.mb_loc b.mb_attributes; super.module_binding self b)
  ; module_type_declaration =
      (fun self d -> look d.mtd_loc d.mtd_attributes; super.module_type_declaration self d)
  ; class_description =
      (fun self d -> look d.ci_loc d.ci_attributes; super.class_description self d)
  ; class_declaration =
      (fun self d -> look d.ci_loc d.ci_attributes; super.class_declaration self d)
  ; class_type_declaration =
      (fun self d -> look d.ci_loc d.ci_attributes; super.class_type_declaration self d)
  }

let of_definition ~unit_name loc =
  let search annotations =
    let iterator = searching loc in
    match (annotations : Cmt_format.binary_annots) with
    | Interface signature -> iterator.signature iterator signature
    | Implementation structure -> iterator.structure iterator structure
    | _ -> ()
  in
  match Option.iter search (annotations unit_name) with
  | () -> None
  | exception Found attributes -> of_attributes attributes

let of_unit unit_name =
  let text = comment [ "ocaml.text"; "text" ] in
  match annotations unit_name with
  | Some (Interface { sig_items = { sig_desc = Tsig_attribute attribute; _ } :: _; _ }) ->
    text attribute
  | Some (Implementation { str_items = { str_desc = Tstr_attribute attribute; _ } :: _; _ }) ->
    text attribute
  | _ -> None
