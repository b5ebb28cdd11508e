type printed =
  | Nothing
  | Outcome of Outcometree.out_phrase
  | Text of string

(* The original: an engine may put its own in place. *)
let print_out_phrase = !Toploop.print_out_phrase

let show = function
  | Nothing -> ""
  | Text text -> text
  | Outcome phrase -> Diagnostic.text print_out_phrase phrase

let standard_value = !Toploop.print_out_value
let standard_type = !Toploop.print_out_type

(* The commonest values and types are printed without a formatter, which takes as long as
   all the rest of a short phrase's printing. *)
let value : Outcometree.out_value -> string = function
  | Oval_int n when !Toploop.print_out_value == standard_value -> string_of_int n
  | Oval_stuff text when !Toploop.print_out_value == standard_value -> text
  | outval -> Diagnostic.text !Toploop.print_out_value outval

let typ : Outcometree.out_type -> string = function
  | Otyp_constr (Oide_ident { printed_name }, [])
    when !Toploop.print_out_type == standard_type -> printed_name
  | outtype -> Diagnostic.text Compat.out_type outtype

let parts = function
  | Nothing | Text "" -> None, None, None
  | Text text -> Some text, None, None
  | Outcome (Ophr_eval (outval, outtype)) ->
    Some (value outval), Some (typ outtype), None
  | Outcome (Ophr_signature [ (Osig_value declared, Some outval) ]) ->
    Some (value outval), Some (typ declared.oval_type), Some declared.oval_name
  | Outcome (Ophr_signature []) -> None, None, None
  | Outcome ((Ophr_signature _ | Ophr_exception _) as phrase) ->
    Some (Diagnostic.text print_out_phrase phrase), None, None

(* The toplevel's own frames are not news; those of the compiler's bytecode, and of what
   the user loads without -g, have no place. *)
let is_own_frame line =
  let mentions part =
    match Misc.search_substring part line 0 with
    | _ -> true
    | exception Not_found -> false
  in
  List.exists mentions [ " at unknown location"; " from unknown location"; " Topeval."; " Topup_" ]

(* A runaway recursion has a thousand frames that say the same. *)
let max_frames = 30

let rec collapse = function
  | [] -> []
  | line :: rest ->
    let rec repeats n = function
      | next :: rest when next = line -> repeats (n + 1) rest
      | rest -> n, rest
    in
    let n, rest = repeats 0 rest in
    (line :: (if n > 0 then [ Printf.sprintf "(%d times more)" n ] else [])) @ collapse rest

let user_frames backtrace =
  let frames =
    String.split_on_char '\n' backtrace
    |> List.filter (fun line -> line <> "" && not (is_own_frame line))
    |> collapse
  in
  let shown = List.filteri (fun i _ -> i < max_frames) frames in
  let hidden = List.length frames - List.length shown in
  shown @ (if hidden > 0 then [ Printf.sprintf "(%d more frames)" hidden ] else [])

let ended status =
  Diagnostic.error Exit
    (Printf.sprintf "exit %d: the evaluation is over; the session goes on, with its bindings" status)

let raised (phrase : Outcometree.out_phrase) backtrace =
  match phrase with
  | Ophr_exception (Interrupt.Ended status, _) -> ended status
  | _ ->
  let text = show (Outcome phrase) in
  let whole = String.concat "\n" (text :: user_frames backtrace) in
  (* User code may have caught the break and raised something else, as [Fun.protect] and
     schedulers do. *)
  let kind : Outcome.kind = if Interrupt.raised () then Interrupted else Exception in
  let described = Diagnostic.error kind text in
  { described with text = whole }

let initialiser_raised file exn backtrace =
  let print ppf () =
    Misc.protect_refs
      [ R (Toploop.print_out_phrase, print_out_phrase) ]
      (fun () -> Toploop.print_exception_outcome ppf exn)
  in
  let text =
    Printf.sprintf "%s is not loaded: an initialiser raised.\n%s" file (Diagnostic.text print ())
  in
  let kind : Outcome.kind = if Interrupt.raised () then Interrupted else Exception in
  let described = Diagnostic.error kind text in
  { described with text = String.concat "\n" (text :: user_frames backtrace) }

let describe exn =
  match exn, Location.error_of_exn exn with
  | Archive.Initialiser_raised (file, exn, backtrace), _ ->
    [ initialiser_raised file exn backtrace ]
  | _, Some _ -> Option.to_list (Diagnostic.of_exn exn)
  | _ when Interrupt.raised () -> [ Diagnostic.error Interrupted "Interrupted." ]
  | _ -> Option.to_list (Diagnostic.of_exn exn)

let interruptible f = try Ok (Interrupt.guard f) with exn -> Error (describe exn)

let sheet = Diagnostic.sheet ()

(* [f] under the compiler's eye: its result, and what the compiler printed besides. *)
let compiling ?compiler_patience f =
  let result = ref None in
  let print ppf () = result := Some (Interrupt.guard ?compiler_patience (fun () -> f ppf)) in
  let said = Diagnostic.text_on sheet print () in
  Option.get !result, said

(* The compiler remembers the units that it looked for in vain, and each name that a
   phrase defined. The toplevel's loop makes it forget both before every phrase, which
   costs as much as parsing one. Here it forgets when it rejects a phrase, which may be
   the fault of that memory and is then tried again, and now and then. *)
let phrases = ref 0

let with_fresh_memory check =
  incr phrases;
  if !phrases mod 1_000 = 0 then Env.reset_cache_toplevel ();
  let types = Btype.snapshot () in
  try check ()
  with exn when Location.error_of_exn exn <> None -> begin
    Interrupt.armed := false;
    Btype.backtrack types;
    Warnings.reset_fatal ();
    Location.reset ();
    let reported = Diagnostic.drain () in
    Env.reset_cache_toplevel ();
    Interrupt.armed := true;
    try check ()
    with exn ->
      (* Some alerts are given only once. *)
      Diagnostic.report_missing reported;
      raise exn
  end

let define structure =
  let run ppf =
    match Toploop.preprocess_phrase ppf (Parsetree.Ptop_def structure) with
    | Ptop_def structure -> with_fresh_memory (fun () -> Engine.run ppf structure)
    | Ptop_dir _ -> assert false
  in
  match compiling ~compiler_patience:20 run with
  | Returned outcome, _ -> Ok (Outcome outcome)
  | Raised (outcome, backtrace), _ -> Error [ raised outcome backtrace ]

(* These say something only when they fail. *)
let silent = function
  | "install_printer" | "remove_printer" | "warnings" | "warn_error" -> true
  | _ -> false

let capturing f =
  let buffer = Buffer.create 256 in
  let to_buffer =
    Format.pp_get_formatter_out_functions (Format.formatter_of_buffer buffer) ()
  in
  let redirect formatter =
    let saved = Format.pp_get_formatter_out_functions formatter () in
    Format.pp_print_flush formatter ();
    Format.pp_set_formatter_out_functions formatter to_buffer;
    fun () ->
      Format.pp_print_flush formatter ();
      Format.pp_set_formatter_out_functions formatter saved
  in
  let restore_out = redirect Format.std_formatter in
  let restore_err = redirect Format.err_formatter in
  let restore () = restore_out (); restore_err () in
  let finished = try Ok (f ()) with exn -> Error exn in
  restore ();
  finished, String.trim (Buffer.contents buffer)

(* These run user code, which prints for itself. *)
let loads = function
  | "load" | "load_rec" | "require" -> true
  | _ -> false

(* Directives print on the standard formatter. Those that fail say so there, and
   raise only outside of interactive use. *)
let direct name ast =
  let interactive = !Sys.interactive in
  Sys.interactive := false;
  let execute () = compiling (fun ppf -> Toploop.execute_phrase true ppf ast) in
  let finished, said =
    if loads name then (try Ok (execute ()) with exn -> Error exn), "" else capturing execute
  in
  if not !Sys.interactive then Sys.interactive := interactive;
  match finished with
  | Ok (true, _) when silent name && said <> "" -> Error [ Diagnostic.error Type said ]
  | Ok (true, _) -> Ok (Text said)
  | Ok (false, rest) -> Error [ Diagnostic.error Type (String.trim (rest ^ said)) ]
  | Error (Compenv.Exit_with_status 0) ->
    Error
      [ Diagnostic.error Type
          "Error: #quit would end the process that holds this session; to end it, close \
           the connection, to start afresh, call reset"
      ]
  | Error (Compenv.Exit_with_status _) -> Error [ Diagnostic.error Type said ]
  | Error exn -> raise exn

let run (ast : Parsetree.toplevel_phrase) =
  let types = Btype.snapshot () in
  let warnings = Warnings.backup () in
  Warnings.reset_fatal ();
  Location.reset ();
  try
    match ast with
    | Ptop_def structure -> define structure
    | Ptop_dir { pdir_name; _ } -> direct pdir_name.txt ast
  with exn ->
    let failures = describe exn in
    Btype.backtrack types;
    Warnings.restore warnings;
    Warnings.reset_fatal ();
    Error failures
