exception Cannot_require of string

let () =
  Location.register_error_of_exn (function
    | Cannot_require reason -> Some (Location.errorf "%s" reason)
    | _ -> None)

let fail format = Printf.ksprintf (fun reason -> raise (Cannot_require reason)) format

(* What [ocamlfind query] says of a package. *)
type package =
  { name : string
  ; directory : string
  ; archives : string list
  ; ppx : string  (* a command; "" for none *)
  ; ppx_options : (string * string list) list  (* for the rewriter of which package *)
  ; error : string
  }

let is_native = Sys.backend_type = Native
let words text = List.filter (( <> ) "") (String.split_on_char ' ' (String.map (function '\t' | '\n' | '\r' | ',' -> ' ' | c -> c) text))

let ocamlfind arguments =
  match Toolchain.output ("ocamlfind" :: arguments) with
  | Ok text -> Ok text
  | Error (127, _) ->
    Error "the command ocamlfind is not there: install findlib, or put it on the server's PATH"
  | Error (_, reason) -> Error reason

let field = '\x1f'
let record = '\x1e'

(* [ppxopt] holds words such as "ppx_deriving,package:ppx_deriving.show". *)
let ppx_options text =
  List.filter_map
    (fun word ->
      match List.filter (( <> ) "") (String.split_on_char ',' word) with
      | package :: (_ :: _ as options) -> Some (package, options)
      | _ -> None)
    (String.split_on_char ' ' (String.map (function '\t' | '\n' -> ' ' | c -> c) text))

(* Where there is no shared library to load, one is made of the archive. *)
let best_file path =
  let shared = Filename.remove_extension path ^ ".cmxs" in
  if is_native && Sys.file_exists shared then shared else path

let package line =
  match String.split_on_char field (String.trim line) with
  | [ name; directory; archive; plugin; ppx; ppxopt; error ] ->
    let files = words (if is_native && plugin <> "" then plugin else archive) in
    Some
      { name
      ; directory
      ; archives = List.map best_file files
      ; ppx = String.trim ppx
      ; ppx_options = ppx_options ppxopt
      ; error
      }
  | _ -> None

let extra_predicates = ref []

let predicates ~threads =
  (if is_native then [ "native"; "plugin" ] else [ "byte" ])
  @ [ "toploop" ]
  @ (if threads then [ "mt"; "mt_posix" ] else [])
  @ List.rev !extra_predicates

let query ~threads names =
  let format =
    String.concat (String.make 1 field)
      [ "%p"; "%d"; "%+A"; "%+(plugin)"; "%(ppx)"; "%(ppxopt)"; "%(error)" ]
  in
  ocamlfind
    ([ "query"; "-recursive"; "-predicates"; String.concat "," (predicates ~threads)
     ; "-format"; format ^ String.make 1 record; "-separator"; "" ]
    @ names)
  |> Result.map (fun text -> List.filter_map package (String.split_on_char record text))

(* To say "mt" makes findlib add the threads library to everything. *)
let find names =
  match query ~threads:false names with
  | Ok packages when List.exists (fun p -> List.hd (String.split_on_char '.' p.name) = "threads") packages ->
    query ~threads:true names
  | answer -> answer

let installed () =
  match ocamlfind [ "list" ] with
  | Ok text -> List.filter_map (fun line -> List.nth_opt (words line) 0) (String.split_on_char '\n' text)
  | Error _ -> []

(* "Package `x' not found - required by `y'" *)
let unknown reason =
  match Scanf.sscanf reason "ocamlfind: Package `%[^']' not found%s@\n" (fun name _ -> name) with
  | name -> Some name
  | exception _ -> None

let explain names reason =
  let what = String.concat ", " names in
  match unknown reason with
  | None -> fail "Cannot require %s: %s" what reason
  | Some name ->
    let near = Misc.spellcheck (installed ()) name in
    fail
      "Cannot require %s: %s.%s\n\
       #list shows the packages that there are; install this one for OCaml %s (%s), or name \
       the folder above it in the server's OCAMLPATH."
      what reason
      (if near = [] then "" else Printf.sprintf "\nHint: Did you mean %s?" (String.concat " or " near))
      Sys.ocaml_version Config.standard_library

let loaded : (string, unit) Hashtbl.t = Hashtbl.create 16
let required_names = ref []
let required () = List.rev !required_names

(* Rewriters of packages, each with its options, in the order in which they came. *)
let rewriters = ref []
let options = ref []

(* Those that stand among the user's own, from [#ppx]. *)
let installed_rewriters = ref []

let command (package, command) =
  let given = List.filter (fun (name, _) -> name = package) (List.rev !options) in
  Toolchain.command (String.concat " " (command :: List.map Filename.quote (List.concat_map snd given)))

let install_rewriters () =
  let others = List.filter (fun c -> not (List.mem c !installed_rewriters)) !Clflags.all_ppx in
  installed_rewriters := List.map command (List.rev !rewriters);
  Clflags.all_ppx := others @ !installed_rewriters

(* The first word is a file if it looks like a path; the rest are its arguments. *)
let rewriter package =
  let file, arguments =
    match String.index_opt package.ppx ' ' with
    | None -> package.ppx, ""
    | Some i -> String.sub package.ppx 0 i, String.sub package.ppx i (String.length package.ppx - i)
  in
  if Filename.is_implicit file then package.ppx
  else
    let file =
      if Filename.is_relative file then Filename.concat package.directory file else file
    in
    if not (Sys.file_exists file) then
      fail "Package %s names the ppx rewriter %s, which is not there; install it again." package.name file;
    Filename.quote file ^ arguments

(* What holds these is the toplevel itself. *)
let is_builtin = function
  | "findlib.top" -> true
  | "compiler-libs.toplevel" -> not is_native
  | "compiler-libs.common" | "compiler-libs.optcomp" | "compiler-libs.native-toplevel" | "dynlink" ->
    is_native
  | _ -> false

let load package =
  if package.error <> "" then fail "Package %s cannot be used: %s" package.name package.error;
  Archive.add_directory package.directory;
  if not (is_builtin package.name) then List.iter Archive.require package.archives;
  if package.ppx <> "" then rewriters := (package.name, rewriter package) :: !rewriters;
  options := List.rev_append package.ppx_options !options;
  install_rewriters ();
  Hashtbl.replace loaded package.name ()

let require names =
  List.iter
    (fun name -> if name.[0] = '-' then fail "%s is no name of a package." name)
    names;
  (match find names with
  | Ok packages -> List.iter (fun p -> if not (Hashtbl.mem loaded p.name) then load p) packages
  | Error reason -> explain names reason);
  List.iter
    (fun name -> if not (List.mem name !required_names) then required_names := name :: !required_names)
    names

let list () =
  match ocamlfind [ "list" ] with
  | Ok text -> Format.printf "%s@." (String.trim text)
  | Error reason -> fail "Cannot list the packages: %s" reason

let install () =
  let add name directive doc =
    Toploop.add_directive name directive { section = "Packages"; doc }
  in
  let require_words text =
    match words text with
    | [] -> fail "Name a package: #require \"unix\";; (#list shows them)."
    | names -> require names
  in
  add "require" (Directive_string require_words) "Load packages and what they need.";
  add "list" (Directive_none list) "List the packages that there are.";
  add "thread" (Directive_none (fun () -> require [ "threads.posix" ])) "Load the threads library.";
  add "predicates"
    (Directive_string (fun text -> extra_predicates := List.rev_append (words text) !extra_predicates))
    "Add findlib predicates for later #require."

let forget () =
  Hashtbl.reset loaded;
  required_names := [];
  rewriters := [];
  options := [];
  installed_rewriters := [];
  extra_predicates := []
