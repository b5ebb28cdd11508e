module Names = Set.Make (String)

let parse text =
  match Parse.toplevel_phrase (Lexing.from_string text) with
  | Ptop_def structure -> Some structure
  | Ptop_dir _ -> None
  | exception _ -> None

(* Modules by their heads. *)
let modules structure =
  Depend.free_structure_names := Misc.Stdlib.String.Set.empty;
  Depend.add_implementation Misc.Stdlib.String.Map.empty structure;
  Names.of_seq (Misc.Stdlib.String.Set.to_seq !Depend.free_structure_names)

let values structure =
  let found = ref Names.empty in
  let expr (iterator : Ast_iterator.iterator) (expression : Parsetree.expression) =
    (match expression.pexp_desc with
    | Pexp_ident { txt = Lident name; _ } -> found := Names.add name !found
    | _ -> ());
    Ast_iterator.default_iterator.expr iterator expression
  in
  let iterator = { Ast_iterator.default_iterator with expr } in
  iterator.structure iterator structure;
  !found

(* Through a module that was opened, perhaps. *)
let comes_from units name =
  let is_of_units path =
    List.exists
      (fun id -> Ident.persistent id && Names.mem (Ident.name id) units)
      (Path.heads path)
  in
  let env = !Toploop.toplevel_env in
  let found find = match find (Longident.Lident name) env with path, _ -> is_of_units path | exception _ -> false in
  found Env.find_value_by_name || found Env.find_module_by_name

(* Units, each group with the number of phrases that came before its replacement. *)
let replaced = ref []

let replace units =
  replaced := (List.length (Workspace.phrases ()), Names.of_list units) :: !replaced

let forget () = replaced := []

let replaced_after index =
  List.fold_left
    (fun found (count, units) -> if count > index then Names.union units found else found)
    Names.empty !replaced

let step (index, stale) (phrase : Workspace.phrase) =
  let units = replaced_after index in
  let defined = Names.of_list phrase.defined in
  let stale =
    match parse phrase.text with
    | Some structure when not (Names.is_empty units && Names.is_empty stale) ->
      let mentioned = Names.union (modules structure) (values structure) in
      let is_stale name =
        Names.mem name stale || Names.mem name units
        || ((not (Names.is_empty units)) && comes_from units name)
      in
      if Names.exists is_stale mentioned then Names.union stale defined
      else Names.diff stale defined
    | _ -> stale
  in
  index + 1, stale

let bindings () =
  if !replaced = [] then []
  else begin
    let _, stale = List.fold_left step (0, Names.empty) (Workspace.phrases ()) in
    Names.elements (Names.inter stale (Names.of_list (Workspace.defined ())))
  end
