(* What the system says when a file cannot grow; then the buffer is as it was. *)
let full = [ "No space left on device"; "Disk quota exceeded"; "File too large" ]

let flushes flush channel =
  match flush channel with
  | () -> true
  | exception Sys_error reason -> not (List.mem reason full)
  | exception _ -> true

let flush () =
  (* All of them, in this order. *)
  let flushes_formatter = flushes (fun ppf -> Format.pp_print_flush ppf ()) in
  let results =
    List.map
      (fun flushes -> flushes ())
      [ (fun () -> flushes_formatter Format.std_formatter)
      ; (fun () -> flushes_formatter Format.err_formatter)
      ; (fun () -> flushes Stdlib.flush stdout)
      ; (fun () -> flushes Stdlib.flush stderr)
      ]
  in
  List.for_all Fun.id results

(* What the toplevel's own loop sets before it begins. *)
let boot () =
  Clflags.debug := true;
  Diagnostic.install ();
  Variant.install ();
  Engine.install ();
  Interrupt.install ();
  Compat.search_path_from_env ();
  Archive.install ();
  Findlib.install ();
  Toploop.set_paths ();
  (try Toploop.initialize_toplevel_env ()
   with exn -> (
     match Location.error_of_exn exn with
     | Some (`Ok report) -> failwith (Diagnostic.text Location.print_report report)
     | _ -> raise exn));
  Fresh.remember ()

let eval source = Evaluation.eval ~quiet:false source
let replay source = Evaluation.eval ~quiet:true source
let recover = Evaluation.recover
let reset = Fresh.restore
let env = Workspace.bindings
let program = Program.of_log

(* As the reply of a tool says it, which has no source to point at. *)
let said failures =
  let text (d : Diagnostic.t) =
    if d.diagnostic.kind = Type then d.diagnostic.message else d.text
  in
  String.concat "\n" (List.map text failures)

let alone f =
  ignore (Diagnostic.drain ());
  Interrupt.forget ();
  Runner.interruptible f

let load path =
  match alone (fun () -> Archive.load path) with
  | Ok names -> names, None
  | Error failures -> [], Some (said failures)

type project =
  { units : string list
  ; unchanged : string list
  ; stale : string list
  ; dropped : string list
  ; error : (bool * string) option
  }

let load_project folder =
  let none = { units = []; unchanged = []; stale = []; dropped = []; error = None } in
  let load () =
    match Project.load folder with
    | { units; unchanged; stale; dropped; failure } ->
      let error = Option.map (fun exn -> false, said (Runner.describe exn)) failure in
      { units; unchanged; stale; dropped; error }
    | exception Project.Does_not_build reason -> { none with error = Some (true, reason) }
  in
  match alone load with
  | Ok project -> project
  | Error failures -> { none with error = Some (false, said failures) }

let packages = Findlib.required
let lookup = Lookup.find
let typecheck = Typecheck.source
let complete = Completion.at
