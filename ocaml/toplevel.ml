let flush_quietly flush channel = try flush channel with _ -> ()

let flush () =
  flush_quietly (fun () -> Format.pp_print_flush Format.std_formatter ()) ();
  flush_quietly (fun () -> Format.pp_print_flush Format.err_formatter ()) ();
  flush_quietly Stdlib.flush stdout;
  flush_quietly Stdlib.flush stderr

(* What the toplevel's own loop sets before it begins. *)
let boot () =
  Clflags.debug := true;
  Diagnostic.install ();
  Variant.install ();
  Engine.install ();
  Interrupt.install ();
  Compat.search_path_from_env ();
  Compat.loads_raise ();
  Toploop.set_paths ();
  (try Toploop.initialize_toplevel_env ()
   with exn -> (
     match Location.error_of_exn exn with
     | Some (`Ok report) -> failwith (Diagnostic.text Location.print_report report)
     | _ -> raise exn));
  Workspace.remember_start ()

(* The run of one source. [last] is the latest phrase that succeeded; what it
   printed becomes text of [earlier] once another phrase follows. *)
type run =
  { mutable last : Runner.printed option
  ; mutable earlier : string list
  ; mutable succeeded : string list
  ; mutable reports : Diagnostic.t list
  ; mutable errors : Diagnostic.t list
  ; depth : int  (* of files that use files *)
  }

(* Printing runs user code: installed printers. The phrase itself is committed. *)
let printing run f printed ~otherwise =
  let before = Interrupt.raised () in
  match Runner.interruptible (fun () -> f printed) with
  | Ok _ when Interrupt.raised () && not before ->
    (* The toplevel catches what a printer raises, our break included. *)
    run.errors <- run.errors @ [ Diagnostic.error Interrupted "Interrupted while printing the value." ];
    otherwise
  | Ok text -> text
  | Error failures ->
    run.errors <- run.errors @ failures;
    otherwise

let settle run =
  Option.iter
    (fun printed ->
      let text = printing run Runner.show printed ~otherwise:"" in
      run.earlier <- text :: run.earlier)
    run.last;
  run.last <- None

let collect run = run.reports <- run.reports @ Diagnostic.drain ()

let max_depth = 64

let too_deep =
  Diagnostic.error Type
    (Printf.sprintf "Files use each other more than %d deep; does one use itself?" max_depth)

let rec phrase run ({ ast; text } : Phrases.phrase) =
  match Directive.phrases ast with
  | Some (Error failures) -> run.errors <- failures
  | Some (Ok _) when run.depth >= max_depth -> run.errors <- [ too_deep ]
  | Some (Ok phrases) -> used run phrases
  | None ->
    collect run;
    let result = Runner.run ast in
    collect run;
    (match result with
    | Ok printed ->
      run.last <- Some printed;
      run.succeeded <- text :: run.succeeded
    | Error failures ->
      run.last <- None;
      run.errors <- failures)

(* A directive that reads phrases ([#use]) prints what they print. *)
and used outer phrases =
  let inner = { outer with last = None; earlier = []; depth = outer.depth + 1 } in
  Phrases.within phrases (fun () -> all inner phrases);
  outer.succeeded <- inner.succeeded;
  outer.reports <- inner.reports;
  outer.errors <- inner.errors;
  if not (failed inner) then begin
    settle inner;
    let texts = List.filter (( <> ) "") (List.rev inner.earlier) in
    outer.last <- Some (Text (String.concat "\n" texts))
  end
  else outer.earlier <- inner.earlier @ outer.earlier

and all run phrases =
  match Phrases.next phrases with
  | None -> collect run
  | Some next ->
    settle run;
    if not (failed run) then phrase run next;
    if not (failed run) then all run phrases
  | exception exn ->
    collect run;
    settle run;
    run.errors <- run.errors @ Option.to_list (Diagnostic.of_exn exn)

and failed run =
  run.errors <> []
  || List.exists
       (fun (d : Diagnostic.t) -> d.diagnostic.severity = Error)
       run.reports

let outcome run (value_repr, typ, name) : Outcome.t =
  let fatal, warnings =
    List.partition
      (fun (d : Diagnostic.t) -> d.diagnostic.severity = Error)
      run.reports
  in
  let text (d : Diagnostic.t) = d.text in
  let errors = fatal @ run.errors in
  { value_repr
  ; typ
  ; name
  ; earlier = List.rev run.earlier
  ; warnings = List.map text warnings
  ; error =
      (if errors = [] then None
       else Some (String.concat "\n" (List.map text errors)))
  ; diagnostics =
      List.map
        (fun (d : Diagnostic.t) -> d.diagnostic)
        (run.reports @ run.errors)
  ; succeeded = List.rev run.succeeded
  }

let eval source =
  let run =
    { last = None; earlier = []; succeeded = []; reports = []; errors = []; depth = 0 }
  in
  ignore (Diagnostic.drain ());
  Interrupt.forget ();
  let phrases = Phrases.of_source source in
  let nothing = None, None, None in
  let parts () =
    all run phrases;
    match run.last with
    | Some printed when not (failed run) ->
      printing run Runner.parts printed ~otherwise:nothing
    | _ -> nothing
  in
  (* Finalisers and the like can raise anywhere. *)
  match Phrases.within phrases parts with
  | parts -> outcome run parts
  | exception exn ->
    run.errors <- run.errors @ Runner.describe exn;
    outcome run nothing

let env = Workspace.bindings
