let desc = Types.get_desc

let check before structure =
  Typecore.reset_delayed_checks ();
  let typed, raw, names, _, after = Typemod.type_toplevel_phrase before structure in
  let signature = Typemod.Signature_names.simplify after names raw in
  (* Also marks what the phrase defines as used. *)
  Includemod.check_implementation before raw signature;
  Typecore.force_delayed_checks ();
  typed, signature, after

let unit_of : Types.Uid.t -> _ = function
  | Item { comp_unit; _ } | Compilation_unit comp_unit -> Some comp_unit
  | Internal | Predef _ -> None

let string_literal (e : Parsetree.expression) =
  match e.pexp_desc with
  | Pexp_constant { pconst_desc = Pconst_string (text, _, _); _ } -> Some text
  | _ -> None

let init_lexer () = Lexer.init ()
