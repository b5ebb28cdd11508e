(* The steps of [Toploop.execute_phrase] of the bytecode toplevel, apart: backtraces are
   recorded for user code only (the compiler raises all the time), and nothing but user
   code can fail between the check and the commit. *)

type ended =
  | Returned of Outcometree.out_phrase
  | Raised of Outcometree.out_phrase * string

(* What [Printexc.backtrace_status] says to user code. *)
let backtraces = ref true
let install () = backtraces := true

type checked =
  { typed : Typedtree.structure
  ; signature : Types.signature
  ; before : Env.t
  ; after : Env.t
  ; bound : Ident.t list
  }

let bound_ident : Types.signature_item -> _ = function
  | Sig_value (id, { val_kind = Val_reg; _ }, _)
  | Sig_module (id, Mp_present, _, _, _)
  | Sig_typext (id, _, _, _)
  | Sig_class (id, _, _, _) -> Some id
  | _ -> None

let check structure =
  let before = !Toploop.toplevel_env in
  Typecore.reset_delayed_checks ();
  let typed, raw, names, _, after = Typemod.type_toplevel_phrase before structure in
  let signature = Typemod.Signature_names.simplify after names raw in
  (* Also marks what the phrase defines as used. *)
  Includemod.check_implementation before raw signature;
  Typecore.force_delayed_checks ();
  { typed; signature; before; after; bound = List.filter_map bound_ident raw }

(* The values of a phrase hang on names. So that a phrase which raises half-way leaves
   the values of the names that it shadows, they are set aside; which names have one is
   known from the phrases that came before. *)
let known : (string, unit) Hashtbl.t = Hashtbl.create 64

let set_aside bound =
  let saved id =
    let name = Translmod.toplevel_name id in
    name, if Hashtbl.mem known name then Toploop.getvalue name else Obj.repr ()
  in
  List.map saved bound

let commit { bound; after; _ } =
  Toploop.toplevel_env := after;
  List.iter (fun id -> Hashtbl.replace known (Translmod.toplevel_name id) ()) bound

let load lambda =
  let instructions, can_free = Bytegen.compile_phrase (Simplif.simplify_lambda lambda) in
  let code, relocations, events = Emitcode.to_memory instructions in
  let symbols = Symtable.current_state () in
  (* Not [restore_state], as in [Topeval]: it gives out again the slots of constants that
     the phrase's code may still use, from a reference say. *)
  Symtable.patch_object code relocations;
  Symtable.check_global_initialized relocations;
  Symtable.update_global_table ();
  let bytecode, closure = Meta.reify_bytecode code [| events |] None in
  let unload () = if can_free then Meta.release_bytecode bytecode in
  closure, unload, fun () -> Symtable.hide_additions symbols

(* Interrupts end here, by assignments: a function call could still let one in. *)
let call closure =
  Printexc.record_backtrace !backtraces;
  Toploop.may_trace := true;
  let result =
    match closure () with
    | value ->
      Interrupt.armed := false;
      Toploop.may_trace := false;
      Ok value
    | exception exn ->
      Interrupt.armed := false;
      Toploop.may_trace := false;
      let backtrace = if Printexc.backtrace_status () then Printexc.get_backtrace () else "" in
      Error (exn, backtrace)
  in
  backtraces := Printexc.backtrace_status ();
  Printexc.record_backtrace false;
  result

let print_item =
  Out_type.print_items (fun env -> function
    | Types.Sig_value (id, { val_kind = Val_reg; val_type; _ }, _) ->
      let value = Toploop.getvalue (Translmod.toplevel_name id) in
      Some (Topeval.outval_of_value env value val_type)
    | _ -> None)

let printed { typed; signature; before; after; _ } value : Outcometree.out_phrase =
  Printtyp.wrap_printing_env ~error:false before (fun () : Outcometree.out_phrase ->
      match Topcommon.find_eval_phrase typed with
      | Some (expression, _, _) ->
        let outval = Topeval.outval_of_value after value expression.exp_type in
        Out_type.prepare_for_printing [ expression.exp_type ];
        Ophr_eval (outval, Out_type.tree_of_typexp Type_scheme expression.exp_type)
      | None -> Ophr_signature (print_item before signature))

let raised exn backtrace =
  if exn = Out_of_memory then Gc.full_major ();
  let outval =
    Topeval.outval_of_value !Toploop.toplevel_env (Obj.repr exn) Predef.type_exn
  in
  Raised (Ophr_exception (exn, outval), backtrace)

let run _ structure =
  let checked = check structure in
  let lambda = Translmod.transl_toplevel_definition checked.typed in
  Warnings.check_fatal ();
  let closure, unload, forget = load lambda in
  (* Some warnings come from the code's generation. *)
  (try Warnings.check_fatal () with exn -> unload (); forget (); raise exn);
  let saved = set_aside checked.bound in
  let result = call closure in
  unload ();
  match result with
  | Ok value ->
    commit checked;
    (* The phrase is done: an exception from elsewhere, a finaliser's say, must not undo
       its types. It comes once. *)
    Returned (try printed checked value with _ -> printed checked value)
  | Error (exn, backtrace) ->
    List.iter (fun (name, value) -> Toploop.setvalue name value) saved;
    forget ();
    raised exn backtrace
