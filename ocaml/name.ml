let longest = 1_000

let is_operator_char c = String.contains "!$%&*+-/:<=>?@^|~#" c

let is_name_char c =
  match c with
  | 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' | '\'' | '.' | '(' | ')' | '[' | ']' | ' ' | '\\'
  | '\x80' .. '\xff' -> true
  | c -> is_operator_char c

let rec is_let_operator text =
  let n = String.length text in
  n > 3 && is_operator_char text.[n - 1]
  && (is_let_operator (String.sub text 0 (n - 1))
     || List.mem (String.sub text 0 (n - 1)) [ "let"; "and" ])

(* The parser takes operators in brackets only, and ( * ) without a blank for a comment. *)
let bracketed text =
  if is_operator_char text.[0] || is_let_operator text then "( " ^ text ^ " )"
  else
    match Misc.search_substring "(*" text 0 with
    | i -> String.sub text 0 (i + 1) ^ " " ^ String.sub text (i + 1) (String.length text - i - 1)
    | exception Not_found -> text

let shown text = if String.length text > 60 then String.sub text 0 60 ^ "…" else text

let bad text =
  let hint =
    match text.[0], String.index_opt text '.' with
    | 'a' .. 'z', Some _ -> " (the names of modules begin with a capital letter)"
    | _ -> ""
  in
  Error
    (Printf.sprintf
       "\"%s\" is not a name%s; give one such as map, List.map, M.t, Some, ( + ) or List.( @ )"
       (shown text) hint)

let parse text =
  let text = String.trim text in
  if text = "" then Error "the name is empty; give one such as List.map"
  else if String.length text > longest then
    Error
      (Printf.sprintf "the name has %d bytes; the longest that is looked up has %d"
         (String.length text) longest)
  else if not (String.for_all is_name_char text) then bad text
  else begin
    let lexbuf = Lexing.from_string (bracketed text) in
    let parsed = match Parse.longident lexbuf with name -> Ok name | exception _ -> bad text in
    Typing.init_lexer ();
    ignore (Diagnostic.drain ());
    parsed
  end

(* The module part of a qualified name, and the rest. *)
let split text =
  let text = String.trim text in
  let rec last_dot i depth =
    if i < 0 then None
    else
      match text.[i] with
      | ')' -> last_dot (i - 1) (depth + 1)
      | '(' -> last_dot (i - 1) (depth - 1)
      | '.' when depth = 0 && not (is_operator_char text.[0]) -> Some i
      | _ -> last_dot (i - 1) depth
  in
  match last_dot (String.length text - 1) 0 with
  | None -> None, text
  | Some i -> Some (String.sub text 0 i), String.sub text (i + 1) (String.length text - i - 1)

let bare text =
  let n = String.length text in
  if n > 2 && text.[0] = '(' && text.[n - 1] = ')' then String.trim (String.sub text 1 (n - 2))
  else text

let is_module env text =
  match parse text with
  | Error _ -> false
  | Ok name -> (
    match Env.find_module_by_name name env with _ -> true | exception Not_found -> false)

let near env scope ~only_modules name =
  let scope = Option.bind scope (fun text -> Result.to_option (parse text)) in
  Visible.entries env scope
  |> List.filter (fun (e : Visible.entry) -> e.kind = "module" || not only_modules)
  |> List.map (fun (e : Visible.entry) -> e.name)
  |> List.sort_uniq String.compare
  |> fun names -> Misc.spellcheck names name

let suggestion qualified = function
  | [] -> ""
  | names -> "; did you mean " ^ String.concat ", " (List.map qualified names) ^ "?"

let qualified prefix name =
  match prefix with
  | None -> name
  | Some prefix -> prefix ^ "." ^ name

let holds env prefix name =
  match parse prefix with
  | Error _ -> false
  | Ok scope ->
    List.exists (fun (e : Visible.entry) -> e.name = bare name) (Visible.entries env (Some scope))

(* [rest] follows what is missing: that must be a module then. *)
let rec missing_part env text ~rest =
  match split text with
  | Some prefix, name when not (is_module env prefix) ->
    missing_part env prefix ~rest:(Some (match rest with None -> name | Some rest -> name ^ "." ^ rest))
  | prefix, name ->
    let name = bare name in
    let whole near =
      let found = qualified prefix near in
      match rest with
      | Some rest when holds env found rest -> qualified (Some found) rest
      | _ -> found
    in
    let hint = suggestion whole (near env prefix ~only_modules:(rest <> None) name) in
    let what = if rest = None then "nothing" else "no module" in
    let where = match prefix with None -> "" | Some prefix -> " in " ^ prefix in
    Printf.sprintf "%s is named %s%s%s" what (shown name) where hint

let missing env text = missing_part env text ~rest:None
