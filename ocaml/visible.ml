type entry =
  { name : string
  ; kind : string
  ; path : Path.t option
  ; typ : unit -> string option
  }

let printed env print x =
  let print ppf () =
    Printtyp.wrap_printing_env ~error:false env (fun () -> print ppf x)
  in
  Diagnostic.text print ()

let scheme env t = printed env Printtyp.type_scheme t

let declaration env path declared =
  let id =
    match path with
    | Path.Pident id -> id
    | path -> Ident.create_persistent (Path.last path)
  in
  printed env (Printtyp.type_declaration id) declared

let is_exception env t = Ctype.is_equal env true [ t ] [ Predef.type_exn ]

let type_path t =
  match Typing.desc t with
  | Tconstr (path, _, _) -> Some path
  | _ -> None

(* In brackets where it is part of a longer type. *)
let operand env t =
  let text = scheme env t in
  match Typing.desc t with
  | Tarrow _ | Ttuple _ -> "(" ^ text ^ ")"
  | _ -> text

let constructor_type env args result =
  match args with
  | [] -> scheme env result
  | args -> String.concat " * " (List.map (operand env) args) ^ " -> " ^ scheme env result

let values env scope =
  Env.fold_values
    (fun name path (d : Types.value_description) found ->
      { name; kind = "value"; path = Some path; typ = (fun () -> Some (scheme env d.val_type)) }
      :: found)
    scope env

let constructors env scope =
  Env.fold_constructors
    (fun d found ->
      let result = d.cstr_res and args = d.cstr_args in
      let kind = if is_exception env result then "exception" else "constructor" in
      let typ () = Some (constructor_type env args result) in
      { name = d.cstr_name; kind; path = type_path result; typ } :: found)
    scope env

let fields env scope =
  Env.fold_labels
    (fun d found ->
      let typ () = Some (scheme env d.lbl_arg) in
      { name = d.lbl_name; kind = "field"; path = type_path d.lbl_res; typ } :: found)
    scope env

let longest_declaration = 200

let types env scope =
  Env.fold_types
    (fun name path declared found ->
      let typ () =
        let text = declaration env path declared in
        if String.length text <= longest_declaration then Some text else None
      in
      { name; kind = "type"; path = Some path; typ } :: found)
    scope env

let untyped kind fold env scope =
  fold
    (fun name path _ found -> { name; kind; path = Some path; typ = (fun () -> None) } :: found)
    scope env

(* Units of the load path that nothing has referred to yet. *)
let unread_units env scope found =
  let rec back (summary : Env.summary) found =
    match summary with
    | Env_persistent (rest, id) ->
      let entry =
        { name = Ident.name id
        ; kind = "module"
        ; path = Some (Path.Pident id)
        ; typ = (fun () -> None)
        }
      in
      back rest (entry :: found)
    | _ -> ( match fst (Workspace.step summary) with Some rest -> back rest found | None -> found)
  in
  if scope = None then back (Env.summary env) found else found

let is_internal { name; kind; _ } =
  let rec has_double i =
    i + 1 < String.length name && ((name.[i] = '_' && name.[i + 1] = '_') || has_double (i + 1))
  in
  kind = "module" && has_double 1

(* A name that was shadowed by an open or in a later phrase is found again behind the one
   that shadows it. *)
let visible entries =
  let seen = Hashtbl.create 512 in
  let is_first entry =
    let key = entry.kind, entry.name in
    let first = not (Hashtbl.mem seen key) in
    Hashtbl.replace seen key ();
    first && not (is_internal entry)
  in
  List.filter is_first (List.rev entries)

let entries env scope =
  let is_there =
    match scope with
    | None -> true
    | Some name -> (
      match Env.find_module_by_name name env with
      | _ -> true
      | exception Not_found -> false)
  in
  if not is_there then []
  else
    []
    |> values env scope
    |> constructors env scope
    |> fields env scope
    |> types env scope
    |> untyped "module" Env.fold_modules env scope
    |> unread_units env scope
    |> untyped "module type" Env.fold_modtypes env scope
    |> untyped "class" Env.fold_classes env scope
    |> untyped "class type" Env.fold_cltypes env scope
    |> visible
