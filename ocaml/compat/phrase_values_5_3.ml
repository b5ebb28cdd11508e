open Lambda

(* A value of a phrase: the phrase and the position in its block. *)
type value = string * int

module Values = Set.Make (struct
  type t = value

  let compare = compare
end)

(* Phrases whose values were not dropped yet, and the sizes of their blocks. *)
let sizes : (string, int) Hashtbl.t = Hashtbl.create 64

(* What functions name by symbol. *)
let pinned = ref Values.empty

let is_phrase id = Ident.persistent id && Hashtbl.mem sizes (Ident.name id)

let read = function
  | Lprim (Pfield (position, _, _), [ Lprim (Pgetglobal id, [], _) ], _) when is_phrase id ->
    Some (Ident.name id, position)
  | _ -> None

let all_of phrase =
  Values.of_seq (Seq.map (fun i -> phrase, i) (Seq.init (Hashtbl.find sizes phrase) Fun.id))

let rec reads found lam =
  match read lam, lam with
  | Some value, _ -> Values.add value found
  | None, Lprim (Pgetglobal id, [], _) when is_phrase id ->
    pinned := Values.union (all_of (Ident.name id)) !pinned;
    found
  | None, _ ->
    let found = ref found in
    let visit lam = found := reads !found lam in
    shallow_iter ~tail:visit ~non_tail:visit lam;
    !found

(* The values of the phrase [name] that are certain to be there once [lam] has run. *)
let rec sets name found = function
  | Lprim (Psetfield (position, _, _), [ Lprim (Pgetglobal id, [], _); _ ], _)
    when Ident.name id = name -> Values.add (name, position) found
  | Lsequence (first, second) | Llet (_, _, _, first, second) ->
    sets name (sets name found first) second
  | Lletrec (_, body) -> sets name found body
  | _ -> found

(* [build replace], where [replace f] is one of [functions] with variables for the values
   that it refers to, inside the bindings of those variables. *)
let taking_along ~name ~available functions build =
  let wanted = List.fold_left reads Values.empty functions in
  let there (phrase, position) = phrase <> name || Values.mem (name, position) available in
  let taken, others = Values.partition there wanted in
  pinned := Values.union others !pinned;
  let variables =
    List.map (fun value -> value, Ident.create_local "value") (Values.elements taken)
  in
  let rec replace lam =
    match read lam with
    | Some value when List.mem_assoc value variables -> Lvar (List.assoc value variables)
    | _ -> shallow_map replace lam
  in
  let bind ((phrase, position), variable) body =
    let block = Lprim (Pgetglobal (Ident.create_persistent phrase), [], Loc_unknown) in
    let value = Lprim (Pfield (position, Pointer, Immutable), [ block ], Loc_unknown) in
    Llet (Strict, Pgenval, variable, value, body)
  in
  List.fold_right bind variables (build replace)

let rec walk ~name available lam =
  let taking_along = taking_along ~name ~available and rest = walk ~name available in
  match lam with
  | Lfunction _ -> taking_along [ lam ] (fun replace -> replace lam)
  | Llet (strict, kind, id, (Lfunction _ as f), body) ->
    taking_along [ f ] (fun replace -> Llet (strict, kind, id, replace f, rest body))
  | Lletrec (bindings, body) ->
    let functions = List.map (fun { def; _ } -> Lfunction def) bindings in
    taking_along functions (fun replace ->
        let replace binding = { binding with def = map_lfunction replace binding.def } in
        Lletrec (List.map replace bindings, rest body))
  | Lsequence (first, second) ->
    Lsequence (rest first, walk ~name (sets name available first) second)
  | Llet (strict, kind, id, first, second) ->
    Llet (strict, kind, id, rest first, walk ~name (sets name available first) second)
  | _ -> shallow_map rest lam

(* Flambda replaces such variables by symbols again. *)
let close ~name ~size code =
  Hashtbl.replace sizes name size;
  if Config.flambda then code else walk ~name Values.empty code

let forget ~lookup =
  let drop name size =
    match lookup ("caml" ^ name) with
    | None -> ()
    | Some block ->
      for position = 0 to size - 1 do
        if not (Values.mem (name, position) !pinned) then
          Obj.set_field block position (Obj.repr 0)
      done
  in
  if not Config.flambda then Hashtbl.iter drop sizes;
  Hashtbl.reset sizes;
  pinned := Values.empty
