let no_colors () =
  Clflags.color := Some Misc.Color.Never;
  Misc.Color.setup !Clflags.color

let plain_style _ = ()
let out_type ppf t = !Toploop.print_out_type ppf t
let on_main_domain = Domain.is_main_domain
let search_path_from_env = ignore
let find_unit_file = Load_path.find_uncap
