let no_colors () =
  Clflags.color := Some Misc.Color.Never;
  Misc.Color.setup !Clflags.color

let plain_style _ = ()
let out_type ppf t = !Toploop.print_out_type ppf t
let on_main_domain () = true
let search_path_from_env = ignore

(* Replaced in the table: [Toploop.add_directive] would make [#help] list them twice. *)
let loads_raise () =
  let replace directive recursive =
    let load file =
      if not (Topeval.load_file recursive Format.std_formatter file) then
        raise (Compenv.Exit_with_status 125)
    in
    Hashtbl.replace (Toploop.directive_table [@alert "-deprecated"]) directive
      (Toploop.Directive_string load)
  in
  replace "load" false;
  replace "load_rec" true
