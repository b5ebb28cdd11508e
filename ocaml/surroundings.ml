type t =
  { env : Env.t
  ; unfinished : Tokens.token array
  ; typed : bool
  }

(* What fails says nothing, but for our own break. *)
let attempt f =
  match f () with
  | result -> Some result
  | exception exn -> if Interrupt.raised () then raise exn else None

let checked env phrase = snd (Typecheck.phrase env phrase)

let segment env text =
  let phrases = Phrases.of_source text in
  Phrases.within phrases (fun () ->
      match Phrases.next phrases with
      | Some { ast = Ptop_def structure; _ } -> checked env structure
      | Some { ast = Ptop_dir _; _ } | None -> env)

(* The environment behind the phrases that end in ;; and where the last one ends. *)
let after_phrases env source (tokens : Tokens.token array) =
  let next (env, first) (token : Tokens.token) =
    match token.kind with
    | SEMISEMI ->
      let text = String.sub source first (token.last - first) in
      Option.value (attempt (fun () -> segment env text)) ~default:env, token.last
    | _ -> env, first
  in
  Array.fold_left next (env, 0) tokens

let starts_item : Parser.token -> bool = function
  | LET | TYPE | MODULE | OPEN | EXCEPTION | CLASS | EXTERNAL | INCLUDE -> true
  | _ -> false

(* So many places are tried for the beginning of the unfinished definition. *)
let max_attempts = 12

(* The environment behind the definitions that precede the unfinished one, and where that
   begins. What stands before the last LET or the like is complete if it parses. *)
let after_items env source (tokens : Tokens.token array) first =
  let depths = Tokens.depths tokens in
  let rec places i found =
    if i >= Array.length tokens then found
    else if tokens.(i).first > first && depths.(i) = 0 && starts_item tokens.(i).kind then
      places (i + 1) (tokens.(i).first :: found)
    else places (i + 1) found
  in
  let define last () =
    let lexbuf = Lexing.from_string (String.sub source first (last - first)) in
    match Parse.implementation lexbuf with
    | structure -> checked env structure
    | exception exn -> Typing.init_lexer (); raise exn
  in
  let rec try_from attempts = function
    | last :: rest when attempts > 0 -> (
      match attempt (define last) with
      | Some env -> env, last
      | None -> try_from (attempts - 1) rest)
    | _ -> env, first
  in
  try_from max_attempts (places 0 [])

let opened env path =
  let opened () =
    let name = Option.get (Longident.unflatten path) in
    let path, _ = Env.find_module_by_name name env in
    match Env.open_signature Asttypes.Override path env with
    | Ok env -> env
    | Error _ -> env
  in
  Option.value (attempt opened) ~default:env

exception Found of Env.t

(* What is in scope at [from], as the type checker sees it when the unfinished definition,
   which begins at [first], ends there: with locals and their types, as far as what was
   written says. *)
let within env source unfinished ~first ~from =
  let filler = "(assert false)" in
  let before = String.sub source first (from - first) in
  let place = from - first in
  let expr self (e : Typedtree.expression) =
    if e.exp_loc.loc_start.pos_cnum = place
       && e.exp_loc.loc_end.pos_cnum = place + String.length filler
    then raise (Found e.exp_env);
    Tast_iterator.default_iterator.expr self e
  in
  let checked () =
    let text = before ^ filler ^ Tokens.closers unfinished in
    let structure = Parse.implementation (Lexing.from_string text) in
    let check _ =
      let typed, _, _ = Typing.check env structure in
      typed
    in
    let typed = fst (Runner.compiling ~compiler_patience:20 check) in
    let iterator = { Tast_iterator.default_iterator with expr } in
    match iterator.structure iterator typed with
    | () -> None
    | exception Found env -> Some env
  in
  let found = Option.join (attempt checked) in
  Typing.init_lexer ();
  found

let at source (tokens : Tokens.token array) ~from =
  let env, first = after_phrases !Toploop.toplevel_env source tokens in
  let env, first = after_items env source tokens first in
  let is_unfinished (t : Tokens.token) = t.first >= first && t.last <= from in
  let unfinished = Array.of_list (List.filter is_unfinished (Array.to_list tokens)) in
  match within env source unfinished ~first ~from with
  | Some env -> { env; unfinished; typed = true }
  | None ->
    { env = List.fold_left opened env (Tokens.opens unfinished); unfinished; typed = false }
