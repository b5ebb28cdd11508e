type printed =
  | Nothing
  | Outcome of Outcometree.out_phrase
  | Text of string

let print_out_phrase = !Toploop.print_out_phrase
let caught : Outcometree.out_phrase option ref = ref None

(* Printing runs user code (installed printers), so it waits until the phrase is
   committed. *)
let install () =
  Toploop.print_out_phrase := fun _ phrase -> caught := Some phrase

let show = function
  | Nothing -> ""
  | Text text -> text
  | Outcome phrase -> Diagnostic.text print_out_phrase phrase

let value outval = Diagnostic.text !Toploop.print_out_value outval
let typ outtype = Diagnostic.text Compat.out_type outtype

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

(* The toplevel's own frames are not news; those of the bytecode that is linked into
   the executable have no debugging information. *)
let is_own_frame line =
  let mentions part =
    let n = String.length part in
    let rec at i = i + n <= String.length line && (String.sub line i n = part || at (i + 1)) in
    at 0
  in
  line = "Called from unknown location" || List.exists mentions [ " Topeval."; " Topup_" ]

let user_frames backtrace =
  String.split_on_char '\n' backtrace
  |> List.filter (fun line -> not (is_own_frame line))
  |> String.concat "\n"
  |> String.trim

let raised phrase backtrace =
  let text = show (Outcome phrase) in
  let backtrace = user_frames backtrace in
  let whole = if backtrace = "" then text else text ^ "\n" ^ backtrace in
  let kind : Outcome.kind =
    match phrase with
    | Ophr_exception (Sys.Break, _) when Interrupt.raised () -> Interrupted
    | _ -> Exception
  in
  let described = Diagnostic.error kind text in
  { described with text = whole }

let rejected exn =
  match exn with
  | Sys.Break when Interrupt.raised () ->
    [ Diagnostic.error Interrupted "Interrupted." ]
  | exn -> Option.to_list (Diagnostic.of_exn exn)

let execute ast =
  let rest = Buffer.create 64 in
  let ppf = Format.formatter_of_buffer rest in
  Compat.plain_style ppf;
  let finished =
    Interrupt.guard (fun () ->
        let ast = Toploop.preprocess_phrase ppf ast in
        Env.reset_cache_toplevel ();
        Toploop.execute_phrase true ppf ast)
  in
  Format.pp_print_flush ppf ();
  finished, Buffer.contents rest

let define ast =
  match execute ast with
  | true, _ -> Ok (match !caught with None -> Nothing | Some p -> Outcome p)
  | false, rest -> begin
    match !caught with
    | Some phrase -> Error [ raised phrase (Variant.backtrace rest) ]
    | None -> Error [ Diagnostic.error Type rest ]
  end

(* Directives print on the standard formatter. Those that fail say so there, and
   raise only outside of interactive use. *)
let direct ast =
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
  let said () = String.trim (Buffer.contents buffer) in
  Sys.interactive := false;
  let finished = try Ok (execute ast) with exn -> Error exn in
  Sys.interactive := true;
  restore ();
  match finished with
  | Ok (true, _) -> Ok (Text (said ()))
  | Ok (false, rest) -> Error [ Diagnostic.error Type (String.trim (rest ^ said ())) ]
  | Error (Compenv.Exit_with_status 0) ->
    Error
      [ Diagnostic.error Type
          "Error: #quit would end the process that holds this session; use reset \
           to start afresh, or close the connection"
      ]
  | Error (Compenv.Exit_with_status _) -> Error [ Diagnostic.error Type (said ()) ]
  | Error exn -> raise exn

let run (ast : Parsetree.toplevel_phrase) =
  let types = Btype.snapshot () in
  let warnings = Warnings.backup () in
  caught := None;
  Warnings.reset_fatal ();
  Location.reset ();
  try
    match ast with
    | Ptop_def _ -> define ast
    | Ptop_dir _ -> direct ast
  with exn ->
    let failures = rejected exn in
    Btype.backtrack types;
    Warnings.restore warnings;
    Warnings.reset_fatal ();
    Error failures
