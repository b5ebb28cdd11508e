(* The run of one source. [last] is the latest phrase that succeeded; what it
   printed becomes text of [earlier] once another phrase follows. Lists have the newest
   first: a checkpoint has thousands of phrases. *)
type run =
  { mutable last : Runner.printed option
  ; mutable earlier : string list
  ; mutable reports : Diagnostic.t list
  ; mutable errors : Diagnostic.t list
  ; mutable failed : bool
  ; quiet : bool  (* what was said of phrases before the last is not wanted *)
  ; depth : int  (* of files that use files *)
  }

let start ~quiet =
  { last = None; earlier = []; reports = []; errors = []; failed = false; quiet; depth = 0 }

let succeeded = ref ignore
let attempted = ref ignore

let collect run =
  let reports = Diagnostic.drain () in
  run.reports <- List.rev_append reports run.reports;
  (* Warnings that were made errors end the run like any other. *)
  if List.exists (fun (d : Diagnostic.t) -> d.diagnostic.severity = Error) reports then
    run.failed <- true

let fail run failures =
  run.errors <- List.rev_append failures run.errors;
  run.failed <- true

(* Printing runs user code: installed printers. The phrase itself is committed. *)
let printing run f printed ~otherwise =
  let before = Interrupt.raised () in
  match Runner.interruptible (fun () -> f printed) with
  | Ok _ when Interrupt.raised () && not before ->
    (* The toplevel catches what a printer raises, our break included. *)
    fail run [ Diagnostic.error Interrupted "Interrupted while printing the value." ];
    otherwise
  | Ok text -> text
  | Error failures -> fail run failures; otherwise

let settle run =
  (match run.last with
  | None -> ()
  | Some _ when run.quiet -> run.reports <- []
  | Some printed ->
    run.earlier <- printing run Runner.show printed ~otherwise:"" :: run.earlier);
  run.last <- None

let max_depth = 64

let too_deep =
  Diagnostic.error Type
    (Printf.sprintf "Files use each other more than %d deep; does one use itself?" max_depth)

let rec phrase run (phrase : Phrases.phrase) =
  match Directive.phrases phrase.ast with
  | Some (Error failures) -> fail run failures
  | Some (Ok _) when run.depth >= max_depth -> fail run [ too_deep ]
  | Some (Ok phrases) -> used run phrases
  | None ->
    (* Warnings of the parser may have been made errors. *)
    collect run;
    if not run.failed then checked run phrase

and checked run phrase =
  let before = Env.summary !Toploop.toplevel_env in
  let result = Runner.run phrase.ast in
  collect run;
  match result with
  | Ok printed ->
    run.last <- Some printed;
    if Directive.is_kept phrase.ast then begin
      let text = Phrases.record phrase in
      Workspace.mark ~before { phrase with text };
      !succeeded text
    end
  | Error failures ->
    run.last <- None;
    run.failed <- true;
    fail run failures

(* A directive that reads phrases ([#use]) prints what they print. *)
and used outer phrases =
  let inner = { outer with last = None; earlier = []; depth = outer.depth + 1 } in
  Phrases.within phrases (fun () -> all inner phrases);
  outer.reports <- inner.reports;
  outer.errors <- inner.errors;
  outer.failed <- inner.failed;
  if not inner.failed then begin
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
    if run.quiet && run.depth = 0 then !attempted ();
    if not run.failed then phrase run next;
    if not run.failed then all run phrases
  | exception exn ->
    collect run;
    settle run;
    run.failed <- true;
    fail run (Option.to_list (Diagnostic.of_exn exn))

let assemble ~earlier ~reports ~errors (value_repr, typ, name) : Outcome.t =
  let fatal, warnings =
    List.partition (fun (d : Diagnostic.t) -> d.diagnostic.severity = Error) reports
  in
  let text (d : Diagnostic.t) = d.text in
  { value_repr
  ; typ
  ; name
  ; earlier
  ; warnings = List.map text warnings
  ; error =
      (match fatal @ errors with
      | [] -> None
      | all -> Some (String.concat "\n" (List.map text all)))
  ; diagnostics = List.map (fun (d : Diagnostic.t) -> d.diagnostic) (reports @ errors)
  }

let outcome run =
  assemble ~earlier:(List.rev run.earlier) ~reports:(List.rev run.reports)
    ~errors:(List.rev run.errors)

let nothing = None, None, None

let guarded run f =
  ignore (Diagnostic.drain ());
  Interrupt.forget ();
  (* Finalisers and the like can raise anywhere. *)
  match f () with
  | parts -> outcome run parts
  | exception exn -> fail run (Runner.describe exn); outcome run nothing

let eval ~quiet source =
  let run = start ~quiet in
  let phrases = Phrases.of_source source in
  let parts () =
    all run phrases;
    match run.last with
    | Some printed when not run.failed -> printing run Runner.parts printed ~otherwise:nothing
    | _ -> nothing
  in
  guarded run (fun () -> Phrases.within phrases parts)

let recover ~skip source =
  let phrases = Phrases.of_source source in
  let rec all number lost =
    match Phrases.next phrases with
    | None -> List.rev lost
    | Some next ->
      !attempted ();
      if List.mem number skip then all (number + 1) lost
      else
        let run = start ~quiet:true in
        let { Outcome.error; _ } = guarded run (fun () -> phrase run next; nothing) in
        let failure = Option.map (fun error -> number, error) error in
        all (number + 1) (Option.to_list failure @ lost)
  in
  Phrases.within phrases (fun () -> all 1 [])
