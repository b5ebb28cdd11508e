let without_trace f =
  let types = Btype.snapshot () and warnings = Warnings.backup () in
  let undo () =
    Btype.backtrack types;
    Warnings.restore warnings;
    Warnings.reset_fatal ();
    Typecore.reset_delayed_checks ();
    Env.reset_cache_toplevel ()
  in
  Warnings.reset_fatal ();
  Location.reset ();
  Fun.protect ~finally:undo f

let expression : Typedtree.structure -> Typedtree.expression option = function
  | { str_items = [ { str_desc = Tstr_eval (expression, _); _ } ]; _ }
  | { str_items =
        [ { str_desc =
              Tstr_value
                (Nonrecursive, [ { vb_pat = { pat_desc = Tpat_any; _ }; vb_expr = expression; _ } ])
          ; _
          }
        ]
    ; _
    } -> Some expression
  | _ -> None

let phrase env structure =
  let check ppf =
    match Toploop.preprocess_phrase ppf (Parsetree.Ptop_def structure) with
    | Ptop_dir _ -> assert false
    | Ptop_def structure ->
      let typed, signature, after =
        Runner.with_fresh_memory (fun () ->
            let checked = Typing.check env structure in
            Warnings.check_fatal ();
            checked)
      in
      let text =
        match expression typed with
        | Some { exp_type; _ } -> "- : " ^ Visible.scheme after exp_type
        | None -> Visible.printed env Printtyp.signature signature
      in
      text, after
  in
  fst (Runner.compiling ~compiler_patience:20 check)

type run =
  { mutable env : Env.t
  ; mutable texts : string list  (* the newest first, here and below *)
  ; mutable directives : string list
  ; mutable reports : Diagnostic.t list
  ; mutable errors : Diagnostic.t list
  }

let rec all run phrases =
  let next =
    match Phrases.next phrases with
    | None -> false
    | Some { ast = Ptop_dir { pdir_name; _ }; _ } ->
      run.directives <- pdir_name.txt :: run.directives;
      true
    | Some { ast = Ptop_def structure; _ } ->
      let text, env = phrase run.env structure in
      run.texts <- text :: run.texts;
      run.env <- env;
      true
  in
  run.reports <- List.rev_append (Diagnostic.drain ()) run.reports;
  if next then all run phrases

let source text =
  ignore (Diagnostic.drain ());
  Interrupt.forget ();
  let run =
    { env = !Toploop.toplevel_env; texts = []; directives = []; reports = []; errors = [] }
  in
  let phrases = Phrases.of_source text in
  let checked () =
    (* The source must still be the compiler's input when the failure is described. *)
    try all run phrases
    with exn ->
      run.reports <- List.rev_append (Diagnostic.drain ()) run.reports;
      run.errors <- Runner.describe exn
  in
  Phrases.within phrases (fun () -> without_trace checked);
  let outcome =
    Evaluation.assemble ~earlier:(List.rev run.texts) ~reports:(List.rev run.reports)
      ~errors:run.errors (None, None, None)
  in
  outcome, List.rev run.directives
