module Names = Set.Make (String)

type binding =
  { name : string
  ; typ : string
  }

let contains part text =
  match Misc.search_substring part text 0 with
  | _ -> true
  | exception Not_found -> false

let start = ref Env.Env_empty

type phrase =
  { number : int
  ; text : string
  ; start : Lexing.position
  ; docs : (Location.t * string) list
  ; defined : string list
  }

(* The phrases of the log, the newest first, each with the environment behind it. *)
let marks = ref []
let phrases () = List.rev_map fst !marks

let remember_start () =
  start := Env.summary !Toploop.toplevel_env;
  marks := []

(* One step back in the history of an environment, and the value that it defined. *)
let step : Env.summary -> Env.summary option * (Ident.t * Types.value_description) option
  = function
  | Env_empty -> None, None
  | Env_value (rest, id, description) -> Some rest, Some (id, description)
  | Env_type (rest, _, _)
  | Env_extension (rest, _, _)
  | Env_module (rest, _, _, _)
  | Env_modtype (rest, _, _)
  | Env_class (rest, _, _)
  | Env_cltype (rest, _, _)
  | Env_open (rest, _)
  | Env_functor_arg (rest, _)
  | Env_constraints (rest, _)
  | Env_copy_types rest
  | Env_persistent (rest, _)
  | Env_value_unbound (rest, _, _)
  | Env_module_unbound (rest, _, _) -> Some rest, None

(* What a step back undoes, if it is a definition. *)
let definition : Env.summary -> Ident.t option = function
  | Env_value (_, id, _)
  | Env_type (_, id, _)
  | Env_extension (_, id, _)
  | Env_module (_, id, _, _)
  | Env_modtype (_, id, _)
  | Env_class (_, id, _)
  | Env_cltype (_, id, _) -> Some id
  | _ -> None

let own env =
  let rec back (summary : Env.summary) found =
    if summary == !start then found
    else
      let found = Option.to_list (definition summary) @ found in
      match step summary with
      | Some rest, _ -> back rest found
      | None, _ -> found
  in
  back (Env.summary env) []

let origin id =
  (* [latest] is the oldest phrase behind which everything undone so far is to be seen. *)
  let rec back (summary : Env.summary) marks latest =
    match marks with
    | (phrase, marked) :: older when marked == summary -> back summary older (Some phrase)
    | _ when summary == !start -> None
    | _ -> (
      match definition summary with
      | Some defined when Ident.same defined id -> latest
      | _ -> Option.bind (fst (step summary)) (fun rest -> back rest marks latest))
  in
  back (Env.summary !Toploop.toplevel_env) !marks None

(* Names that have values or hold them, between two points of the history. *)
let defined_between before after =
  let rec back (summary : Env.summary) found =
    if summary == before then found
    else
      let found =
        match summary with
        | Env_value (_, id, _) | Env_module (_, id, _, _) -> Ident.name id :: found
        | _ -> found
      in
      match step summary with
      | Some rest, _ -> back rest found
      | None, _ -> found
  in
  back after []

let defined () = defined_between !start (Env.summary !Toploop.toplevel_env)

let mark ~before ({ text; start; ast } : Phrases.phrase) =
  let after = Env.summary !Toploop.toplevel_env in
  let number = match !marks with ({ number; _ }, _) :: _ -> number + 1 | [] -> 1 in
  (* Few phrases have comments, and to look for them takes a walk through the phrase. *)
  let docs = if contains "(**" text || contains "doc" text then Documentation.of_values ast else [] in
  let defined = defined_between before after in
  marks := ({ number; text; start; docs; defined }, after) :: !marks

let at_start () = !start

let history () =
  let rec back summary found =
    if summary == !start then found
    else
      match step summary with
      | None, _ -> found
      | Some rest, _ -> back rest (summary :: found)
  in
  back (Env.summary !Toploop.toplevel_env) []

(* Names under which the session's phrases have values, those that were shadowed, too. *)
let forget_values () =
  let rec back (summary : Env.summary) =
    (match summary with
    | Env_value (_, id, { val_kind = Val_reg; _ })
    | Env_extension (_, id, _)
    | Env_module (_, id, _, _)
    | Env_class (_, id, _) -> Variant.forget_value id
    | _ -> ());
    if summary != !start then Option.iter back (fst (step summary))
  in
  back (Env.summary !Toploop.toplevel_env)

(* The session's own values, the oldest first. *)
let own_values () =
  let seen = Hashtbl.create 64 in
  let rec back summary found =
    if summary == !start then found
    else
      match step summary with
      | None, _ -> found
      | Some rest, Some (id, description) when not (Hashtbl.mem seen (Ident.name id)) ->
        Hashtbl.add seen (Ident.name id) ();
        back rest ((Ident.name id, description) :: found)
      | Some rest, _ -> back rest found
  in
  back (Env.summary !Toploop.toplevel_env) []

let library_values own =
  let own = List.fold_left (fun names (name, _) -> Names.add name names) Names.empty own in
  Env.fold_values
    (fun name _ description found ->
      if Names.mem name own then found else (name, description) :: found)
    None !Toploop.toplevel_env []
  |> List.sort (fun (a, _) (b, _) -> String.compare a b)

let binding (name, (description : Types.value_description)) =
  { name; typ = Diagnostic.text Printtyp.type_scheme description.val_type }

let bindings ~filter ~all ~limit =
  let own = own_values () in
  let values = if all then library_values own @ own else own in
  let wanted = List.filter (fun (name, _) -> contains filter name) values in
  let shown = List.filteri (fun i _ -> i < limit) wanted in
  let printed =
    Printtyp.wrap_printing_env ~error:false !Toploop.toplevel_env (fun () ->
        List.map binding shown)
  in
  printed, List.length wanted
