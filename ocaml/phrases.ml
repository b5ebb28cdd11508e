type phrase =
  { ast : Parsetree.toplevel_phrase
  ; text : string
  ; start : Lexing.position
  }

type t =
  { name : string
  ; source : string
  ; lexbuf : Lexing.lexbuf
  ; read : t -> phrase option
  }

let next t = t.read t

let is_space c = c = ' ' || c = '\n' || c = '\t' || c = '\r'

(* Where the text that stands behind [position] begins. *)
let rec skip_blanks text (position : Lexing.position) =
  let i = position.pos_cnum in
  if i >= String.length text || not (is_space text.[i]) then position
  else if text.[i] = '\n' then
    skip_blanks text
      { position with pos_cnum = i + 1; pos_bol = i + 1; pos_lnum = position.pos_lnum + 1 }
  else skip_blanks text { position with pos_cnum = i + 1 }

(* The phrase between two places of its source. *)
let phrase source ast ~before ~last =
  let start = skip_blanks source before in
  let first = start.pos_cnum and last = min last (String.length source) in
  { ast; text = String.trim (String.sub source first (max 0 (last - first))); start }

(* A line directive would swallow what stands behind it on its line. *)
let record { text; _ } =
  let last_line =
    match String.rindex_opt text '\n' with
    | Some i -> String.trim (String.sub text i (String.length text - i))
    | None -> ""
  in
  if String.starts_with ~prefix:"#" last_line then text ^ "\n;;"
  else if String.ends_with ~suffix:";;" text then text
  else text ^ ";;"

let lexbuf ~name text =
  let lexbuf = Lexing.from_string text in
  Location.init lexbuf name;
  lexbuf

let standard_parser = !Toploop.parse_toplevel_phrase

(* Whether the lexer is in its initial state: no parse has failed since its last [init]. *)
let lexer_is_clean = ref false

(* [Parse.toplevel_phrase] fills the table of keywords before every phrase, which takes
   longer than to parse most of them. So it parses the first one, and again each that does
   not parse, to say why. *)
let parse (lexbuf : Lexing.lexbuf) =
  let standard () =
    let ast = !Toploop.parse_toplevel_phrase lexbuf in
    lexer_is_clean := true;
    ast
  in
  if !Toploop.parse_toplevel_phrase != standard_parser || not !lexer_is_clean then standard ()
  else begin
    let { Lexing.lex_curr_pos; lex_curr_p; lex_start_p; lex_eof_reached; _ } = lexbuf in
    lexer_is_clean := false;
    Docstrings.init ();
    match Parser.toplevel_phrase Lexer.token lexbuf with
    | ast ->
      Docstrings.warn_bad_docstrings ();
      lexer_is_clean := true;
      ast
    | exception _ ->
      ignore (Diagnostic.drain ());
      lexbuf.lex_curr_pos <- lex_curr_pos;
      lexbuf.lex_curr_p <- lex_curr_p;
      lexbuf.lex_start_p <- lex_start_p;
      lexbuf.lex_eof_reached <- lex_eof_reached;
      standard ()
  end

let is_blank text first =
  let rec from i = i >= String.length text || (is_space text.[i] && from (i + 1)) in
  from first

let rec next_of_source t =
  let before = t.lexbuf.lex_curr_p in
  let first = before.pos_cnum in
  if is_blank t.source first then None
  else
    match parse t.lexbuf with
    | Ptop_def [] -> next_of_source t
    | ast ->
      let last = t.lexbuf.lex_curr_p.pos_cnum in
      Some (phrase t.source ast ~before ~last)
    | exception End_of_file -> None

(* The parser wants a ";;" at the end; a second one is an empty phrase. The new
   line before it ends a line that a directive or comment may have opened. *)
let of_source source =
  Diagnostic.set_source source;
  let name = Diagnostic.input_name in
  { name; source; lexbuf = lexbuf ~name (source ^ "\n;;"); read = next_of_source }

let stop : Parsetree.toplevel_phrase -> int = function
  | Ptop_def items ->
    List.fold_left (fun _ (item : Parsetree.structure_item) -> item.pstr_loc.loc_end.pos_cnum) 0 items
  | Ptop_dir { pdir_loc; _ } -> pdir_loc.loc_end.pos_cnum

(* From the end of the phrase before, so that comments stay with what follows them. The
   parser of files says nothing of lines. *)
let phrase_of_file source ast ~first ~last =
  let from first = phrase source ast ~before:{ Lexing.dummy_pos with pos_cnum = first } ~last in
  let found = from first in
  if String.starts_with ~prefix:";;" found.text then from (found.start.pos_cnum + 2) else found

let of_file ~name source =
  let rest = ref None in
  let rec pop t first = function
    | [] -> rest := Some (first, []); None
    | Parsetree.Ptop_def [] :: others -> pop t first others
    | ast :: others ->
      let last = stop ast in
      rest := Some (last, others);
      Some (phrase_of_file t.source ast ~first ~last)
  in
  let read t =
    match !rest with
    | Some (first, phrases) -> pop t first phrases
    | None ->
      Lexer.skip_hash_bang t.lexbuf;
      let first = t.lexbuf.lex_curr_pos in
      pop t first (!Toploop.parse_use_file t.lexbuf)
  in
  { name; source; lexbuf = lexbuf ~name source; read }

let within t f =
  Misc.protect_refs
    [ R (Location.input_name, t.name)
    ; R (Location.input_lexbuf, Some t.lexbuf)
    ]
    f
