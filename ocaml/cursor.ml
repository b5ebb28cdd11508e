open Tokens

type position =
  | Expression
  | Record
  | Type
  | Module
  | Module_type
  | Class
  | Any

type t =
  | Directive
  | Label of
      { head : string
      ; given : string list
      ; optional : bool
      }
  | Method of string
  | Field of string * string list
  | Name of string list * position

type place =
  { context : t
  ; start : int
  ; from : int
  }

let kind tokens i : Parser.token =
  if i >= 0 && i < Array.length tokens then tokens.(i).kind else SEMISEMI

let slice source tokens first last =
  String.sub source tokens.(first).first (tokens.(last).last - tokens.(first).first)

(* The index at which the simple expression that ends at [i] begins: a name, a literal or
   something in brackets; with what it is projected from, and prefix operators. *)
let rec expression_start tokens i =
  let begin_of_atom =
    match kind tokens i with
    | LIDENT _ | UIDENT _ | INT _ | FLOAT _ | CHAR _ | STRING _ | TRUE | FALSE -> Some i
    | RPAREN | RBRACKET | RBRACE | BARRBRACKET | GREATERRBRACE | END -> opening tokens i
    | _ -> None
  in
  Option.bind begin_of_atom (fun first ->
      match kind tokens (first - 1) with
      | DOT | HASH -> (
        match expression_start tokens (first - 2) with
        | Some first -> Some first
        | None -> None)
      | BANG | PREFIXOP _ -> Some (first - 1)
      | _ -> Some first)

let rec expression_end tokens last i =
  let end_of_atom =
    match kind tokens i with
    | LPAREN | LBRACKET | LBRACE | LBRACKETBAR | BEGIN ->
      let rec closing j = if j > last then last else if opening tokens j = Some i then j else closing (j + 1) in
      closing (i + 1)
    | _ -> i
  in
  match kind tokens (end_of_atom + 1) with
  | (DOT | HASH) when end_of_atom + 2 <= last -> expression_end tokens last (end_of_atom + 2)
  | _ -> end_of_atom

(* Back over the arguments of an application, to where its head begins. *)
let rec application_start tokens i found =
  match kind tokens i with
  | LABEL _ | OPTLABEL _ | TILDE | QUESTION -> application_start tokens (i - 1) found
  | _ -> (
    match expression_start tokens i with
    | Some first -> application_start tokens (first - 1) (Some first)
    | None -> found, i)

let labels tokens first last =
  let depths = depths tokens in
  let outside = if first <= last then depths.(first) else 0 in
  let rec given i found =
    if i > last then found
    else if depths.(i) > outside then given (i + 1) found
    else
      match kind tokens i, kind tokens (i + 1) with
      | (LABEL name | OPTLABEL name), _ -> given (i + 1) (name :: found)
      | (TILDE | QUESTION), LIDENT name when i < last -> given (i + 2) (name :: found)
      | _ -> given (i + 1) found
  in
  given first []

let label source tokens i ~optional =
  match application_start tokens (i - 1) None with
  | None, _ -> None
  | Some first, before -> (
    match kind tokens before with
    (* A parameter's own label. *)
    | LET | AND | REC | FUN | METHOD | LETOP _ | ANDOP _ | VAL | COLON -> None
    | _ ->
      let last = expression_end tokens (i - 1) first in
      let head = slice source tokens first last in
      Some (Label { head; given = labels tokens (last + 1) (i - 1); optional }, tokens.(first).first))

let rec enclosing tokens i depth =
  if i < 0 then None
  else
    match kind tokens i with
    | RPAREN | RBRACKET | RBRACE | BARRBRACKET | END | DONE -> enclosing tokens (i - 1) (depth + 1)
    | (LPAREN | LBRACKET | LBRACE | LBRACKETBAR | BEGIN | STRUCT | SIG | OBJECT | DO) as opener ->
      if depth = 0 then Some opener else enclosing tokens (i - 1) (depth - 1)
    | _ -> enclosing tokens (i - 1) depth

(* Whether the = at [i] belongs to the definition of a type. *)
let rec defines_type tokens i =
  match kind tokens i with
  | TYPE -> kind tokens (i - 1) <> MODULE
  | LET | MODULE | CLASS | METHOD | VAL | FUN | IN | SEMISEMI | LETOP _ -> false
  | RPAREN -> ( match opening tokens i with Some j -> defines_type tokens (j - 1) | None -> false)
  | _ -> i >= 0 && defines_type tokens (i - 1)

let of_colon tokens i =
  match kind tokens (i - 1), kind tokens (i - 2) with
  | UIDENT _, MODULE -> Module_type
  | _ -> Type

(* Back over what may stand in a type. *)
let rec in_type tokens i =
  match kind tokens i with
  | COLON -> Some (of_colon tokens i)
  | OF | COLONGREATER -> Some Type
  | EQUAL -> if defines_type tokens (i - 1) then Some Type else None
  | LIDENT _ | UIDENT _ | DOT | STAR | MINUSGREATER | QUOTE | UNDERSCORE | COMMA | LPAREN | PRIVATE ->
    in_type tokens (i - 1)
  | RPAREN -> Option.bind (opening tokens i) (fun j -> in_type tokens (j - 1))
  | _ -> None

let rec phrase_start tokens i =
  if i < 0 || tokens.(i).kind = SEMISEMI then i + 1 else phrase_start tokens (i - 1)

let position tokens i =
  match kind tokens i, kind tokens (i - 1), kind tokens (i - 2), kind tokens (i - 3) with
  | (OPEN | INCLUDE), _, _, _ | BANG, OPEN, _, _ -> Module
  | EQUAL, UIDENT _, MODULE, _ -> Module
  | EQUAL, UIDENT _, TYPE, MODULE -> Module_type
  | (NEW | INHERIT), _, _, _ -> Class
  | LBRACE, _, _, _ -> Record
  | (SEMI | WITH), _, _, _ when enclosing tokens i 0 = Some LBRACE -> Record
  | _ -> (
    match kind tokens (phrase_start tokens i) with
    | HASH when i >= phrase_start tokens i + 1 -> Any
    | _ -> Option.value (in_type tokens i) ~default:Expression)

let projected source tokens i context =
  Option.map
    (fun first -> context (slice source tokens first i), tokens.(first).first)
    (expression_start tokens i)

let rec qualified source tokens i path start =
  match kind tokens i, kind tokens (i - 1) with
  | DOT, UIDENT name -> qualified source tokens (i - 2) (name :: path) tokens.(i - 1).first
  | DOT, _ -> projected source tokens (i - 1) (fun text -> Field (text, path))
  | _ -> Some (Name (path, position tokens i), start)

let is_name text = match text.[0] with 'a' .. 'z' | 'A' .. 'Z' | '_' | '\x80' .. '\xff' -> true | _ -> false

(* The name that ends at [offset], if one does, is what is to be completed. *)
let split source tokens offset =
  let count = Array.length tokens in
  if count > 0 then
    let { first; last; _ } = tokens.(count - 1) in
    if last = offset && is_name (String.sub source first (last - first)) then
      Array.sub tokens 0 (count - 1), first
    else tokens, offset
  else tokens, offset

let find source tokens offset =
  let tokens, start = split source tokens offset in
  let i = Array.length tokens - 1 in
  let touches = i >= 0 && tokens.(i).last = start in
  let place start = Option.map (fun (context, from) -> { context; start; from }) in
  match kind tokens i with
  | HASH when phrase_start tokens (i - 1) = i -> place start (Some (Directive, start))
  | HASH -> place start (projected source tokens (i - 1) (fun text -> Method text))
  | (TILDE | QUESTION) as mark when touches ->
    place tokens.(i).first (label source tokens i ~optional:(mark = QUESTION))
  | (QUOTE | BACKQUOTE | INT _ | FLOAT _ | CHAR _ | STRING _ | RPAREN | RBRACKET | RBRACE | BARRBRACKET)
    when touches -> None
  | _ -> place start (qualified source tokens i [] start)
