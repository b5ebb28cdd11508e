(* These read phrases, which are kept themselves, or only show something. Archives are the
   machine's, not the source's: they are loaded again by hand. *)
let is_passing = function
  | "load" | "load_rec" | "use" | "mod_use" | "use_output" | "help" | "quit" | "list" | "trace"
  | "untrace" | "untrace_all" -> true
  | name -> String.starts_with ~prefix:"show" name

let is_kept : Parsetree.toplevel_phrase -> bool = function
  | Ptop_def _ -> true
  | Ptop_dir { pdir_name; _ } -> not (is_passing pdir_name.txt)

let read path =
  let ic = open_in_bin path in
  Fun.protect
    ~finally:(fun () -> close_in_noerr ic)
    (fun () -> really_input_string ic (in_channel_length ic))

let fail format =
  Printf.ksprintf (fun text -> Error (Diagnostic.error Type text)) format

let use file =
  match Load_path.find file with
  | exception Not_found ->
    fail
      "Cannot find file %s.\n\
       (looked in the load path and in the current directory, %s)"
      file (Sys.getcwd ())
  | path when Sys.is_directory path -> fail "Cannot read %s: Is a directory." path
  | path -> (
    match read path with
    | source -> Ok (path, source)
    | exception Sys_error reason -> fail "Cannot read %s." reason)

(* The file's own first line stays line 1 in locations. *)
let mod_use file =
  Result.map
    (fun (path, source) ->
      let name = Filename.remove_extension (Filename.basename path) in
      let directive = Printf.sprintf "# 1 %S\n" path in
      ( path
      , Printf.sprintf "module %s = struct\n%s%s\nend"
          (String.capitalize_ascii name) directive source ))
    (use file)

let use_output command =
  let file = Filename.temp_file "topup" ".ml" in
  Fun.protect
    ~finally:(fun () -> try Sys.remove file with Sys_error _ -> ())
    (fun () ->
      match Sys.command (Toolchain.command (Printf.sprintf "{ %s\n} > %s" command (Filename.quote file))) with
      | 0 -> Ok ("(command-output)", read file)
      | code -> fail "Command exited with code %d." code)

let read_by name argument =
  match name with
  | "use" -> use argument
  | "mod_use" -> mod_use argument
  | _ -> use_output argument

let phrases : Parsetree.toplevel_phrase -> _ = function
  (* What findlib's script would add is there, and runs [ocamlfind] instead. *)
  | Ptop_dir
      { pdir_name = { txt = "use"; _ }
      ; pdir_arg = Some { pdira_desc = Pdir_string "topfind"; _ }
      ; _
      } -> Some (Ok (Phrases.of_file ~name:"topfind" ""))
  | Ptop_dir
      { pdir_name = { txt = ("use" | "mod_use" | "use_output") as name; _ }
      ; pdir_arg = Some { pdira_desc = Pdir_string argument; _ }
      ; _
      } ->
    let found = Runner.interruptible (fun () -> read_by name argument) in
    Some
      (match found with
      | Ok (Ok (name, source)) -> Ok (Phrases.of_file ~name source)
      | Ok (Error failure) -> Error [ failure ]
      | Error failures -> Error failures)
  | _ -> None
