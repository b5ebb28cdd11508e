type phrase =
  { ast : Parsetree.toplevel_phrase
  ; text : string
  }

type t =
  { name : string
  ; source : string
  ; lexbuf : Lexing.lexbuf
  ; read : t -> phrase option
  }

let next t = t.read t

let slice source first last =
  let last = min last (String.length source) in
  String.trim (String.sub source first (max 0 (last - first)))

let lexbuf ~name text =
  let lexbuf = Lexing.from_string text in
  Location.init lexbuf name;
  lexbuf

let rec next_of_source t =
  let first = t.lexbuf.lex_curr_p.pos_cnum in
  match !Toploop.parse_toplevel_phrase t.lexbuf with
  | Ptop_def [] -> next_of_source t
  | ast ->
    let last = t.lexbuf.lex_curr_p.pos_cnum in
    Some { ast; text = slice t.source first last }
  | exception End_of_file -> None

(* The parser wants a ";;" at the end; a second one is an empty phrase. The new
   line before it ends a line that a directive or comment may have opened. *)
let of_source source =
  Diagnostic.set_source source;
  let name = Diagnostic.input_name in
  { name; source; lexbuf = lexbuf ~name (source ^ "\n;;"); read = next_of_source }

let bounds : Parsetree.toplevel_phrase -> (int * int) option = function
  | Ptop_def [] -> None
  | Ptop_def (first :: _ as items) ->
    let last = List.nth items (List.length items - 1) in
    Some (first.pstr_loc.loc_start.pos_cnum, last.pstr_loc.loc_end.pos_cnum)
  | Ptop_dir { pdir_loc; _ } ->
    Some (pdir_loc.loc_start.pos_cnum, pdir_loc.loc_end.pos_cnum)

let of_file ~name source =
  let rest = ref None in
  let rec pop t = function
    | [] -> rest := Some []; None
    | ast :: others -> begin
      match bounds ast with
      | None -> pop t others
      | Some (first, last) ->
        rest := Some others;
        Some { ast; text = slice t.source first last }
    end
  in
  let read t =
    match !rest with
    | Some phrases -> pop t phrases
    | None ->
      Lexer.skip_hash_bang t.lexbuf;
      pop t (!Toploop.parse_use_file t.lexbuf)
  in
  { name; source; lexbuf = lexbuf ~name source; read }

let within t f =
  Misc.protect_refs
    [ R (Location.input_name, t.name)
    ; R (Location.input_lexbuf, Some t.lexbuf)
    ]
    f
