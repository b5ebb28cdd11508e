open Lambda

(* A value of a phrase: the position in the phrase's block, and those on the way further
   in. *)
type value =
  { phrase : string
  ; path : int list
  ; is_function : bool
  }

module Values = Set.Make (struct
  type t = value

  let compare = compare
end)

module Places = Set.Make (struct
  type t = string * int

  let compare = compare
end)

(* Phrases whose values were not dropped yet, and the sizes of their blocks. *)
let sizes : (string, int) Hashtbl.t = Hashtbl.create 64

(* What functions name by symbol. *)
let pinned = ref Places.empty

let is_phrase id = Ident.persistent id && Hashtbl.mem sizes (Ident.name id)

(* The phrase that is compiled: which of its values are there at this point, and which of
   those are functions by their definition. *)
type own =
  { name : string
  ; there : Places.t
  ; functions : Places.t
  }

let rec approximation (known : Clambda.value_approximation) path =
  match known, path with
  | known, [] -> known
  | Value_tuple fields, position :: rest when position < Array.length fields ->
    approximation fields.(position) rest
  | _ -> Value_unknown

let is_function own phrase path =
  if phrase = own.name then
    match path with
    | [ position ] -> Places.mem (phrase, position) own.functions
    | _ -> false
  else
    match approximation (Compilenv.global_approx (Ident.create_persistent phrase)) path with
    | Value_closure _ -> true
    | _ -> false

let rec path = function
  | Lprim (Pfield (position, _, _), [ Lprim (Pgetglobal id, [], _) ], _) when is_phrase id ->
    Some (Ident.name id, [ position ])
  | Lprim (Pfield (position, _, _), [ block ], _) ->
    Option.map (fun (phrase, path) -> phrase, path @ [ position ]) (path block)
  | _ -> None

(* A function is taken along itself, so that calls of it stay direct; of anything else its
   root. *)
let read own lam =
  match path lam with
  | Some (phrase, path) when is_function own phrase path ->
    Some { phrase; path; is_function = true }
  | Some (phrase, ([ _ ] as path)) -> Some { phrase; path; is_function = false }
  | _ -> None

let all_of phrase =
  Places.of_seq (Seq.map (fun i -> phrase, i) (Seq.init (Hashtbl.find sizes phrase) Fun.id))

let rec reads own found lam =
  match read own lam, lam with
  | Some value, _ -> Values.add value found
  | None, Lprim (Pgetglobal id, [], _) when is_phrase id ->
    pinned := Places.union (all_of (Ident.name id)) !pinned;
    found
  | None, _ ->
    let found = ref found in
    let visit lam = found := reads own !found lam in
    shallow_iter ~tail:visit ~non_tail:visit lam;
    !found

(* [own] once [lam] has run; [named] are variables that hold functions. *)
let rec sets named own = function
  | Lprim (Psetfield (position, _, _), [ Lprim (Pgetglobal id, [], _); value ], _)
    when Ident.name id = own.name ->
    let place = own.name, position in
    let is_function = match value with Lvar id -> List.mem (Ident.name id) named | _ -> false in
    { own with
      there = Places.add place own.there
    ; functions = (if is_function then Places.add place own.functions else own.functions)
    }
  | Llet (_, _, id, Lfunction _, body) -> sets (Ident.name id :: named) own body
  | Lletrec (bindings, body) ->
    sets (List.map (fun { id; _ } -> Ident.name id) bindings @ named) own body
  | Lsequence (first, second) | Llet (_, _, _, first, second) ->
    sets named (sets named own first) second
  | _ -> own

let expression { phrase; path; is_function } =
  let block = Lprim (Pgetglobal (Ident.create_persistent phrase), [], Loc_unknown) in
  let field block position = Lprim (Pfield (position, Pointer, Immutable), [ block ], Loc_unknown) in
  let value = List.fold_left field block path in
  (* Of a block of known parts the compiler would take the parts from their own symbols. *)
  if is_function then value else Lprim (Popaque, [ value ], Loc_unknown)

(* [build replace], where [replace f] is one of [functions] with variables for the values
   that it refers to, inside the bindings of those variables. *)
let taking_along own functions build =
  let wanted = List.fold_left (reads own) Values.empty functions in
  let place { phrase; path; _ } = phrase, List.hd path in
  let is_there value = value.phrase <> own.name || Places.mem (place value) own.there in
  let taken, others = Values.partition is_there wanted in
  Values.iter (fun value -> pinned := Places.add (place value) !pinned) others;
  let variables =
    List.map (fun value -> value, Ident.create_local "value") (Values.elements taken)
  in
  let rec replace lam =
    match read own lam with
    | Some value when List.mem_assoc value variables -> Lvar (List.assoc value variables)
    | _ -> shallow_map replace lam
  in
  let bind (value, variable) body = Llet (Strict, Pgenval, variable, expression value, body) in
  List.fold_right bind variables (build replace)

let rec walk own lam =
  let rest = walk own in
  match lam with
  | Lfunction _ -> taking_along own [ lam ] (fun replace -> replace lam)
  | Llet (strict, kind, id, (Lfunction _ as f), body) ->
    taking_along own [ f ] (fun replace -> Llet (strict, kind, id, replace f, rest body))
  | Lletrec (bindings, body) ->
    let functions = List.map (fun { def; _ } -> Lfunction def) bindings in
    taking_along own functions (fun replace ->
        let replace binding = { binding with def = map_lfunction replace binding.def } in
        Lletrec (List.map replace bindings, rest body))
  | Lsequence (first, second) -> Lsequence (rest first, walk (sets [] own first) second)
  | Llet (strict, kind, id, first, second) ->
    Llet (strict, kind, id, rest first, walk (sets [] own first) second)
  | _ -> shallow_map rest lam

(* Flambda replaces such variables by symbols again. *)
let close ~name ~size code =
  Hashtbl.replace sizes name size;
  if Config.flambda then code
  else walk { name; there = Places.empty; functions = Places.empty } code

let forget ~lookup =
  let drop name size =
    match lookup ("caml" ^ name) with
    | None -> ()
    | Some block ->
      for position = 0 to size - 1 do
        if not (Places.mem (name, position) !pinned) then
          Obj.set_field block position (Obj.repr 0)
      done
  in
  if not Config.flambda then Hashtbl.iter drop sizes;
  Hashtbl.reset sizes;
  pinned := Places.empty
