let desc = Types.get_desc

(* Marked as used: warnings must not count what the session may still use. *)
let mark_used : Types.signature_item -> unit = function
  | Sig_value (_, { val_uid; _ }, _) -> Env.mark_value_used val_uid
  | Sig_type (_, { type_uid; _ }, _, _) -> Env.mark_type_used type_uid
  | Sig_module (_, _, { md_uid; _ }, _, _) -> Env.mark_module_used md_uid
  | _ -> ()

let check before structure =
  Typecore.reset_delayed_checks ();
  let typed, raw, names, _, after = Typemod.type_toplevel_phrase before structure in
  List.iter mark_used raw;
  Typecore.force_delayed_checks ();
  typed, Typemod.Signature_names.simplify after names raw, after

let unit_of : Types.Uid.t -> _ = function
  | Item { comp_unit; _ } | Compilation_unit comp_unit -> Some comp_unit
  | Internal | Predef _ -> None

let string_literal (e : Parsetree.expression) =
  match e.pexp_desc with
  | Pexp_constant (Pconst_string (text, _, _)) -> Some text
  | _ -> None

let init_lexer = Lexer.init
