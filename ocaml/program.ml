type t =
  { text : string
  ; flags : string list
  ; phrases : string list
  }

(* Names that a structure may define only once. *)
module Names = Set.Make (struct
  type t = [ `Type | `Module | `Module_type | `Constructor ] * string

  let compare = compare
end)

(* How an item may stand beside others. *)
type place =
  | Together of Names.t  (** with items that define other names *)
  | Alone  (** who knows what it defines *)
  | Outside  (** it speaks of what follows *)

let place (item : Parsetree.structure_item) =
  let names kind located = Names.of_list (List.map (fun { Location.txt; _ } -> kind, txt) located) in
  let plain attributes names = if attributes = [] then Together names else Alone in
  let modules (bindings : Parsetree.module_binding list) =
    let named (m : Parsetree.module_binding) = Option.map (fun name -> `Module, name) m.pmb_name.txt in
    Together (Names.of_list (List.filter_map named bindings))
  in
  match item.pstr_desc with
  | Pstr_open _ | Pstr_attribute _ -> Outside
  | Pstr_include _ | Pstr_extension _ -> Alone
  | Pstr_eval _ | Pstr_value _ | Pstr_primitive _ -> Together Names.empty
  | Pstr_typext { ptyext_constructors = constructors; _ } ->
    Together (names `Constructor (List.map (fun (c : Parsetree.extension_constructor) -> c.pext_name) constructors))
  | Pstr_exception { ptyexn_constructor = c; _ } -> Together (names `Constructor [ c.pext_name ])
  | Pstr_type (_, types) ->
    let attributes = List.concat_map (fun (t : Parsetree.type_declaration) -> t.ptype_attributes) types in
    plain attributes (names `Type (List.map (fun (t : Parsetree.type_declaration) -> t.ptype_name) types))
  | Pstr_module binding -> modules [ binding ]
  | Pstr_recmodule bindings -> modules bindings
  | Pstr_modtype m -> plain m.pmtd_attributes (names `Module_type [ m.pmtd_name ])
  | Pstr_class classes ->
    Together (names `Type (List.map (fun (c : _ Parsetree.class_infos) -> c.pci_name) classes))
  | Pstr_class_type types ->
    Together (names `Type (List.map (fun (c : _ Parsetree.class_infos) -> c.pci_name) types))

type writer =
  { buffer : Buffer.t
  ; mutable group : Names.t option  (** what the [open struct] that is open defines *)
  }

let close_group w =
  if w.group <> None then Buffer.add_string w.buffer "end\n";
  w.group <- None

let open_group w =
  Buffer.add_string w.buffer "open struct\n";
  w.group <- Some Names.empty

let join w names =
  (match w.group with
  | Some defined when Names.disjoint defined names -> ()
  | _ -> close_group w; open_group w);
  w.group <- Option.map (Names.union names) w.group

(* The item at its place in the phrase, as far as the compiler can tell. *)
let write w ~number (phrase : Phrases.phrase) ~origin (item : Parsetree.structure_item) =
  let first = item.pstr_loc.loc_start and last = item.pstr_loc.loc_end in
  let text = String.sub phrase.text (first.pos_cnum - origin) (last.pos_cnum - first.pos_cnum) in
  let before = String.sub phrase.text 0 (first.pos_cnum - origin) in
  let line = List.length (String.split_on_char '\n' before) in
  let column =
    match String.rindex_opt before '\n' with
    | Some i -> String.length before - i - 1
    | None -> String.length before
  in
  Printf.bprintf w.buffer "# %d \"phrase %d\"\n%s%s\n;;\n" line number (String.make column ' ') text

let add w ~number (phrase : Phrases.phrase) =
  match phrase.ast with
  | Ptop_dir _ -> ()
  | Ptop_def items ->
    List.iter
      (fun item ->
        (match place item with
        | Together names -> join w names
        | Alone -> close_group w; open_group w
        | Outside -> close_group w);
        write w ~number phrase ~origin:phrase.start.pos_cnum item;
        if place item = Alone then close_group w)
      items

let rec add_all w number texts phrases =
  match Phrases.next phrases with
  | Some phrase ->
    add w ~number phrase;
    add_all w (number + 1) (phrase.text :: texts) phrases
  | None -> close_group w; List.rev texts

let parse_entry entry =
  let lexbuf = Lexing.from_string entry in
  match Parse.val_ident lexbuf with
  | name -> Ok name
  | exception _ ->
    Error (Printf.sprintf "entry %S is not the name of a value, such as main or M.main" entry)

let scheme (description : Types.value_description) =
  let print ppf () =
    Printtyp.wrap_printing_env ~error:false !Toploop.toplevel_env (fun () ->
        Printtyp.type_scheme ppf description.val_type)
  in
  Diagnostic.text print ()

let check_entry entry =
  Result.bind (parse_entry entry) @@ fun name ->
  match Env.find_value_by_name name !Toploop.toplevel_env with
  | exception Not_found ->
    Error (Printf.sprintf "entry %s is not in scope; define it first: let %s () = …" entry entry)
  | _, description ->
    let types = Btype.snapshot () in
    let called = Printf.sprintf "(fun (f : 'a -> 'b) (x : 'a) -> f x) (%s) ()" entry in
    let phrase = Parse.implementation (Lexing.from_string called) in
    let fits =
      match Typemod.type_toplevel_phrase !Toploop.toplevel_env phrase with
      | _ -> true
      | exception exn when Location.error_of_exn exn <> None -> false
    in
    Btype.backtrack types;
    ignore (Diagnostic.drain ());
    Warnings.reset_fatal ();
    if fits then Ok ()
    else
      Error
        (Printf.sprintf "entry %s has type %s; it must have type unit -> _" entry (scheme description))

let flags () =
  let flag name setting = if !setting then [ name ] else [] in
  flag "-rectypes" Clflags.recursive_types
  @ flag "-nolabels" Clflags.classic
  @ flag "-strict-sequence" Clflags.strict_sequence
  @ List.concat_map (fun ppx -> [ "-ppx"; ppx ]) (List.rev !Clflags.all_ppx)

let of_log ~entry log =
  Result.bind (check_entry entry) @@ fun () ->
  let w = { buffer = Buffer.create (2 * String.length log); group = None } in
  let phrases = Phrases.of_source log in
  match Phrases.within phrases (fun () -> add_all w 1 [] phrases) with
  | texts ->
    Printf.bprintf w.buffer "# 1 \"entry\"\nlet () = match (%s) () with _ -> ()\n" entry;
    Ok { text = Buffer.contents w.buffer; flags = flags (); phrases = texts }
  | exception exn -> (
    match Diagnostic.of_exn exn with
    | Some { text; _ } -> Error ("the phrase log does not parse: " ^ text)
    | None -> raise exn)
