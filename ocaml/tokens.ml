type token =
  { kind : Parser.token
  ; first : int
  ; last : int
  }

let before source offset =
  let lexbuf = Lexing.from_string (String.sub source 0 offset) in
  let rec all found =
    let from = Lexing.lexeme_end lexbuf in
    match Lexer.token_with_comments lexbuf with
    | EOF -> Some found
    | COMMENT _ | DOCSTRING _ | EOL -> all found
    | kind ->
      all ({ kind; first = Lexing.lexeme_start lexbuf; last = Lexing.lexeme_end lexbuf } :: found)
    | exception
        Lexer.Error
          ( (Unterminated_comment _ | Unterminated_string | Unterminated_string_in_comment _)
          , _ ) -> None
    | exception Lexer.Error _ -> if Lexing.lexeme_end lexbuf > from then all found else Some found
  in
  Typing.init_lexer ();
  let found = all [] in
  Typing.init_lexer ();
  Option.map (fun found -> Array.of_list (List.rev found)) found

type bracket =
  | Opens
  | Closes
  | Neither

let bracket : Parser.token -> bracket = function
  | LPAREN | LBRACKET | LBRACKETBAR | LBRACKETLESS | LBRACKETGREATER | LBRACKETPERCENT
  | LBRACKETPERCENTPERCENT | LBRACKETAT | LBRACKETATAT | LBRACKETATATAT | LBRACE | LBRACELESS
  | BEGIN | STRUCT | SIG | OBJECT | DO -> Opens
  | RPAREN | RBRACKET | BARRBRACKET | GREATERRBRACKET | RBRACE | GREATERRBRACE | END | DONE ->
    Closes
  | _ -> Neither

let opening tokens i =
  let rec back i depth =
    if i < 0 then None
    else
      match bracket tokens.(i).kind with
      | Closes -> back (i - 1) (depth + 1)
      | Opens when depth = 1 -> Some i
      | Opens -> back (i - 1) (depth - 1)
      | Neither -> back (i - 1) depth
  in
  back i 0

let depths tokens =
  let depth = ref 0 in
  Array.map
    (fun token ->
      match bracket token.kind with
      | Opens -> incr depth; !depth - 1
      | Closes -> depth := max 0 (!depth - 1); !depth
      | Neither -> !depth)
    tokens

(* How a pattern ends, by what it began with. *)
let pattern_end : Parser.token -> (Parser.token -> bool) option = function
  | LET | AND | LETOP _ | ANDOP _ | METHOD | VAL -> Some (fun token -> token = EQUAL)
  | FUN -> Some (fun token -> token = MINUSGREATER)
  | FUNCTION | WITH | BAR -> Some (fun token -> token = MINUSGREATER || token = WHEN)
  | _ -> None

(* Where no pattern can be: what looked like one was something else, a type say. *)
let ends_all : Parser.token -> bool = function
  | LET | IN | SEMISEMI | THEN | ELSE | DO | MATCH | TRY | OPEN | MODULE | TYPE -> true
  | _ -> false

(* The names of the pattern from [i] to its end, and where that is; no names if it does not
   end before the tokens do. *)
let pattern tokens i is_end =
  let count = Array.length tokens in
  let rec scan i depth annotated names =
    if i >= count then [], i
    else
      let kind = tokens.(i).kind in
      if depth = 0 && is_end kind then names, i + 1
      else if depth = 0 && ends_all kind then [], i
      else
        match bracket kind, kind with
        | Opens, _ -> scan (i + 1) (depth + 1) annotated names
        | Closes, _ when depth = 0 -> [], i
        | Closes, _ ->
          let annotated = if annotated = Some depth then None else annotated in
          scan (i + 1) (depth - 1) annotated names
        | _, COLON when annotated = None -> scan (i + 1) depth (Some depth) names
        | _, LIDENT name when annotated = None -> scan (i + 1) depth annotated (name :: names)
        | _ -> scan (i + 1) depth annotated names
  in
  scan i 0 None []

let in_braces tokens i =
  let rec back i depth =
    i >= 0
    &&
    match bracket tokens.(i).kind with
    | Closes -> back (i - 1) (depth + 1)
    | Opens when depth = 0 -> tokens.(i).kind = LBRACE
    | Opens -> back (i - 1) (depth - 1)
    | Neither -> back (i - 1) depth
  in
  back (i - 1) 0

let locals tokens =
  let count = Array.length tokens in
  let is i kind = i < count && tokens.(i).kind = kind in
  (* [outer] has the names that hold again when a bracket closes. *)
  let rec scan i names outer =
    if i >= count then names
    else
      let kind = tokens.(i).kind in
      let skipped =
        is (i + 1) OPEN || is (i + 1) MODULE || is (i + 1) EXCEPTION
        || (kind = WITH && in_braces tokens i)
      in
      match pattern_end kind, bracket kind, outer with
      | Some is_end, _, _ when not skipped ->
        let found, next = pattern tokens (i + 1) is_end in
        scan next (found @ names) outer
      | _, Opens, _ -> scan (i + 1) names (names :: outer)
      | _, Closes, names :: outer -> scan (i + 1) names outer
      | _ -> (
        match kind with
        | FOR -> (
          match if i + 1 < count then tokens.(i + 1).kind else EOF with
          | LIDENT name -> scan (i + 2) (name :: names) outer
          | _ -> scan (i + 1) names outer)
        | _ -> scan (i + 1) names outer)
  in
  scan 0 [] []

(* The module path that ends at [i], and the index before it. *)
let rec path_back tokens i path =
  match if i >= 0 then tokens.(i).kind else EOF with
  | UIDENT name ->
    if i >= 1 && tokens.(i - 1).kind = DOT then path_back tokens (i - 2) (name :: path)
    else name :: path
  | _ -> path

let rec path_on tokens i path =
  match if i < Array.length tokens then tokens.(i).kind else EOF with
  | UIDENT name ->
    if i + 1 < Array.length tokens && tokens.(i + 1).kind = DOT then
      path_on tokens (i + 2) (name :: path)
    else List.rev (name :: path), i + 1
  | _ -> List.rev path, i

let opens tokens =
  let count = Array.length tokens in
  let rec scan i opens outer =
    if i >= count then List.rev opens
    else
      match tokens.(i).kind, outer with
      | OPEN, _ when i >= 1 && tokens.(i - 1).kind = LET -> (
        match path_on tokens (if i + 1 < count && tokens.(i + 1).kind = BANG then i + 2 else i + 1) [] with
        | path, next when path <> [] && next < count && tokens.(next).kind = IN ->
          scan (next + 1) (path :: opens) outer
        | _, next -> scan (max next (i + 1)) opens outer)
      | kind, _ when bracket kind = Opens -> (
        match if i >= 1 && tokens.(i - 1).kind = DOT then path_back tokens (i - 2) [] else [] with
        | [] -> scan (i + 1) opens (opens :: outer)
        | path -> scan (i + 1) (path :: opens) (opens :: outer))
      | kind, opens :: outer when bracket kind = Closes -> scan (i + 1) opens outer
      | _ -> scan (i + 1) opens outer
  in
  scan 0 [] []

let closer : Parser.token -> string = function
  | LPAREN -> " )"
  | LBRACKETBAR -> " |]"
  | LBRACE | LBRACELESS -> " }"
  | BEGIN | STRUCT | SIG | OBJECT -> " end"
  | DO -> " done"
  | _ -> " ]"

let closers tokens =
  let next open_brackets token =
    match bracket token.kind, open_brackets with
    | Opens, _ -> token.kind :: open_brackets
    | Closes, _ :: rest -> rest
    | _ -> open_brackets
  in
  String.concat "" (List.map closer (Array.fold_left next [] tokens))
