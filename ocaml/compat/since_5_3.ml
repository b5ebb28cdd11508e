let no_colors () =
  Clflags.color := Some Misc.Color.Never;
  Misc.Style.setup !Clflags.color

let plain_style = Misc.Style.set_tag_handling
let out_type ppf t = Format_doc.compat !Toploop.print_out_type ppf t
let on_main_domain = Domain.is_main_domain
let search_path_from_env = Topcommon.update_search_path_from_env
let find_unit_file = Load_path.find_normalized
