type item =
  { summary : Env.summary
  ; id : Ident.t option  (* what it defines *)
  ; holds_value : bool  (* under its name, in bytecode *)
  ; visit : Paths.visitors -> unit
  }

let item (summary : Env.summary) =
  let make ?(holds_value = false) id visit = { summary; id = Some id; holds_value; visit } in
  match summary with
  | Env_value (_, id, d) -> make id ~holds_value:true (fun paths -> paths.of_value d)
  | Env_type (_, id, d) -> make id (fun paths -> paths.of_type d)
  | Env_extension (_, id, d) -> make id ~holds_value:true (fun paths -> paths.of_extension d)
  | Env_module (_, id, _, d) -> make id ~holds_value:true (fun paths -> paths.of_module d)
  | Env_modtype (_, id, d) -> make id (fun paths -> paths.of_modtype d)
  | Env_class (_, id, d) -> make id ~holds_value:true (fun paths -> paths.of_class d)
  | Env_cltype (_, id, d) -> make id (fun paths -> paths.of_cltype d)
  | _ -> { summary; id = None; holds_value = false; visit = ignore }

let mentions is_gone visit =
  let found = ref false in
  Paths.iter (fun path -> if List.exists is_gone (Path.heads path) then found := true) visit;
  !found

(* Of what is opened, only the session's own modules can be gone. *)
let opens_gone is_dropped (summary : Env.summary) =
  match summary with
  | Env_open (_, path) -> List.exists is_dropped (Path.heads path)
  | _ -> false

(* Values hang on names: where the newest binding of a name goes, the older ones, which it
   shadowed, must not come back over its value. *)
let shadowed_by_dropped is_dropped items =
  let newest = Hashtbl.create 64 in
  List.filter
    (fun item ->
      match item.id with
      | Some id when item.holds_value ->
        let name = Ident.name id in
        if not (Hashtbl.mem newest name) then Hashtbl.add newest name (is_dropped id);
        Hashtbl.find newest name && not (is_dropped id)
      | _ -> false)
    (List.rev items)

let find_dropped unit_names items =
  let dropped = ref [] in
  let is_dropped id = List.exists (Ident.same id) !dropped in
  let is_gone id =
    if Ident.persistent id then List.mem (Ident.name id) unit_names else is_dropped id
  in
  let drop item = Option.iter (fun id -> dropped := id :: !dropped) item.id in
  let check item =
    match item.id with
    | Some id when (not (is_dropped id)) && mentions is_gone item.visit -> drop item
    | _ -> ()
  in
  let rec settle () =
    let before = List.length !dropped in
    List.iter check items;
    List.iter drop (shadowed_by_dropped is_dropped items);
    if List.length !dropped > before then settle ()
  in
  settle ();
  is_gone, is_dropped

let on rest (summary : Env.summary) : Env.summary =
  match summary with
  | Env_empty -> Env_empty
  | Env_value (_, id, d) -> Env_value (rest, id, d)
  | Env_type (_, id, d) -> Env_type (rest, id, d)
  | Env_extension (_, id, d) -> Env_extension (rest, id, d)
  | Env_module (_, id, presence, d) -> Env_module (rest, id, presence, d)
  | Env_modtype (_, id, d) -> Env_modtype (rest, id, d)
  | Env_class (_, id, d) -> Env_class (rest, id, d)
  | Env_cltype (_, id, d) -> Env_cltype (rest, id, d)
  | Env_open (_, path) -> Env_open (rest, path)
  | Env_functor_arg (_, id) -> Env_functor_arg (rest, id)
  | Env_constraints (_, map) -> Env_constraints (rest, map)
  | Env_copy_types _ -> Env_copy_types rest
  | Env_persistent (_, id) -> Env_persistent (rest, id)
  | Env_value_unbound (_, name, reason) -> Env_value_unbound (rest, name, reason)
  | Env_module_unbound (_, name, reason) -> Env_module_unbound (rest, name, reason)

let rebuild items =
  let summary = List.fold_left (fun rest item -> on rest item.summary) (Workspace.at_start ()) items in
  Envaux.reset_cache ();
  Fun.protect ~finally:Envaux.reset_cache (fun () -> Envaux.env_from_summary summary Subst.identity)

let remove_printers is_gone =
  let env = !Toploop.toplevel_env in
  Fresh.remove_printers_that (fun path ->
      List.exists is_gone (Path.heads path)
      ||
      match Env.find_value path env with
      | description -> mentions is_gone (fun (paths : Paths.visitors) -> paths.of_value description)
      | exception Not_found -> false)

let drop unit_names =
  let items = List.map item (Workspace.history ()) in
  let is_gone, is_dropped = find_dropped unit_names items in
  remove_printers is_gone;
  let stays item =
    Option.fold item.id ~none:(not (opens_gone is_dropped item.summary)) ~some:(fun id -> not (is_dropped id))
  in
  let kept, gone = List.partition stays items in
  let names = List.sort_uniq compare (List.filter_map (fun item -> Option.map Ident.name item.id) gone) in
  let is_open item = match item.summary with Env.Env_open _ -> true | _ -> false in
  let make () =
    (* A module that was opened may not exist any more. *)
    Toploop.toplevel_env :=
      try rebuild kept with _ -> rebuild (List.filter (fun item -> not (is_open item)) kept)
  in
  names, make
