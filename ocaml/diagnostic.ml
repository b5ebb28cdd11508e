type t =
  { text : string
  ; diagnostic : Outcome.diagnostic
  }

let input_name = "//toplevel//"
let source = ref ""
let set_source text = source := text
let reported = ref []

(* Reports that follow another begin with an empty line. *)
let trim s =
  let rec last i =
    if i > 0 && (s.[i - 1] = '\n' || s.[i - 1] = ' ') then last (i - 1) else i
  in
  let rec first i = if i < String.length s && s.[i] = '\n' then first (i + 1) else i in
  let first = first 0 in
  String.sub s first (max first (last (String.length s)) - first)

type sheet =
  { buffer : Buffer.t
  ; ppf : Format.formatter
  }

let sheet () =
  let buffer = Buffer.create 1024 in
  let ppf = Format.formatter_of_buffer buffer in
  Compat.plain_style ppf;
  { buffer; ppf }

(* As the user's own: [Format.set_margin] and friends hold for values, too. *)
let adopt_geometry ppf =
  let margin = Format.get_margin () and max_indent = Format.get_max_indent () in
  if Format.pp_get_margin ppf () <> margin || Format.pp_get_max_indent ppf () <> max_indent
  then Format.pp_safe_set_geometry ppf ~max_indent ~margin;
  Format.pp_set_max_boxes ppf (Format.get_max_boxes ());
  Format.pp_set_ellipsis_text ppf (Format.get_ellipsis_text ())

let text_on { buffer; ppf } print x =
  adopt_geometry ppf;
  let contents () =
    Format.pp_print_flush ppf ();
    let text = Buffer.contents buffer in
    Buffer.clear buffer;
    text
  in
  match print ppf x with
  | () -> trim (contents ())
  | exception exn -> ignore (contents ()); raise exn

let own_sheet = sheet ()
let text print x = text_on own_sheet print x

let is_continuation c = Char.code c land 0xC0 = 0x80

(* The phrases' lexbuf holds ";;" behind the source. A report about that is about the
   end of the source, of which the last character stands for it. *)
let end_of_source () =
  let text = !source in
  let is_blank c = c = ' ' || c = '\n' || c = '\t' || c = '\r' in
  let rec last i = if i > 0 && is_blank text.[i - 1] then last (i - 1) else i in
  let rec first i = if i > 0 && is_continuation text.[i] then first (i - 1) else i in
  let last = last (String.length text) in
  let first = first (max 0 (last - 1)) in
  let position cnum =
    let before = String.sub text 0 first in
    let lines = String.split_on_char '\n' before in
    { Lexing.pos_fname = input_name
    ; pos_lnum = List.length lines
    ; pos_bol = first - String.length (List.nth lines (List.length lines - 1))
    ; pos_cnum = cnum
    }
  in
  position first, position last

let clamp_location (loc : Location.t) =
  let after (pos : Lexing.position) =
    pos.pos_fname = input_name && pos.pos_cnum > String.length !source
  in
  if not (after loc.loc_start || after loc.loc_end) then loc
  else
    let first, last = end_of_source () in
    { loc with
      loc_start = (if after loc.loc_start then first else loc.loc_start)
    ; loc_end = (if after loc.loc_end then last else loc.loc_end)
    }

let column (pos : Lexing.position) =
  let bytes = pos.pos_cnum - pos.pos_bol in
  if pos.pos_bol < 0 || pos.pos_cnum > String.length !source then bytes
  else begin
    let characters = ref 0 in
    for i = pos.pos_bol to pos.pos_cnum - 1 do
      if not (is_continuation !source.[i]) then incr characters
    done;
    !characters
  end

let span (loc : Location.t) =
  (* Reports about no place at all, and about other files, have none. *)
  if loc.loc_start.pos_lnum < 1 then None
  else if loc.loc_start.pos_fname <> input_name then None
  else
    Some
      { Outcome.line = loc.loc_start.pos_lnum
      ; column = column loc.loc_start
      ; end_line = loc.loc_end.pos_lnum
      ; end_column = column loc.loc_end
      }

(* The compiler writes its suggestions as lines of the report. *)
let hints text =
  String.split_on_char '\n' text
  |> List.filter_map (fun line ->
         let line = String.trim line in
         let prefix = "Hint: " in
         let n = String.length prefix in
         if String.starts_with ~prefix line then
           Some (String.trim (String.sub line n (String.length line - n)))
         else None)

(* A warning's report names itself "8 [partial-match]". *)
let warning_code name =
  match Scanf.sscanf name "%d" (fun number -> number) with
  | number -> Printf.sprintf "W%03d" number
  | exception _ -> ""

(* Number 3 is the one that the compiler's own list gives to alerts. *)
let alert_code = "W003"

let of_report kind (report : Location.report) =
  let report =
    { report with
      main = { report.main with loc = clamp_location report.main.loc }
    }
  in
  let printer = Location.batch_mode_printer in
  let message =
    text (printer.pp_main_txt printer report) report.main.txt
  in
  let severity, kind, code =
    match report.kind with
    | Report_error -> Outcome.Error, kind, ""
    | Report_warning name -> Warning, Outcome.Lint, warning_code name
    | Report_warning_as_error name -> Error, Outcome.Lint, warning_code name
    | Report_alert _ -> Warning, Outcome.Lint, alert_code
    | Report_alert_as_error _ -> Error, Outcome.Lint, alert_code
  in
  let whole =
    (* It would begin with a file of the name _none_. *)
    if report.main.loc = Location.none && report.kind = Report_error then "Error: " ^ message
    else text Location.print_report report
  in
  { text = whole
  ; diagnostic =
      { severity
      ; kind
      ; code
      ; message
      ; span = span report.main.loc
      ; hints = hints whole
      }
  }

let record = function
  | None -> ()
  | Some report -> reported := of_report Outcome.Lint report :: !reported

let install () =
  Compat.no_colors ();
  Location.report_printer := (fun () -> Location.batch_mode_printer);
  (Location.warning_reporter :=
     fun loc warning ->
       record (Location.default_warning_reporter loc warning);
       None);
  Location.alert_reporter :=
    fun loc alert ->
      record (Location.default_alert_reporter loc alert);
      None

let drain () =
  let all = List.rev !reported in
  reported := [];
  all

let report_missing earlier =
  let is_missing report = not (List.exists (fun r -> r.text = report.text) !reported) in
  reported := !reported @ List.rev (List.filter is_missing earlier)

let error kind text =
  { text
  ; diagnostic =
      { severity = Error; kind; code = ""; message = text; span = None; hints = [] }
  }

let unfinished = "the source ends before this phrase is complete"

let of_exn exn =
  match Location.error_of_exn exn with
  | Some `Already_displayed -> None
  | Some (`Ok report) ->
    let syntax =
      match exn with
      | Syntaxerr.Error _ | Lexer.Error _ -> true
      | _ -> false
    in
    let described = of_report (if syntax then Syntax else Type) report in
    let at_end = report.main.loc.loc_start.pos_cnum >= String.length !source in
    if syntax && at_end && !Location.input_name = input_name then
      let diagnostic =
        { described.diagnostic with
          hints = described.diagnostic.hints @ [ unfinished ]
        }
      in
      Some { described with diagnostic }
    else Some described
  | None -> begin
    match exn with
    | Stack_overflow ->
      Some (error Type "Error: the toplevel's stack overflowed; what it was given is nested too deeply")
    | Out_of_memory -> Some (error Type "Error: the toplevel ran out of memory")
    | exn ->
      Some
        (error Exception
           (Printf.sprintf
              "Exception: %s, raised while the toplevel itself was at work: by a finaliser, \
               an alarm or a signal handler? The compiler may be damaged by it."
              (Printexc.to_string exn)))
  end
