let desc t = (Btype.repr t).Types.desc

let check before structure =
  Typecore.reset_delayed_checks ();
  let typed, raw, names, after = Typemod.type_toplevel_phrase before structure in
  let signature = Typemod.Signature_names.simplify after names raw in
  (* Marks what the phrase defines as used. *)
  ignore (Includemod.signatures ~mark:Mark_positive before raw signature);
  Typecore.force_delayed_checks ();
  typed, signature, after

(* It prints as Stdlib__List.12, a whole unit as Stdlib__List. *)
let unit_of uid =
  let text = Format.asprintf "%a" Types.Uid.print uid in
  match String.rindex_opt text '.' with
  | Some i -> Some (String.sub text 0 i)
  | None -> Some text

let string_literal (e : Parsetree.expression) =
  match e.pexp_desc with
  | Pexp_constant (Pconst_string (text, _, _)) -> Some text
  | _ -> None

let init_lexer = Lexer.init
