let no_color = Misc.Color.Never
let plain_style = Misc.Style.set_tag_handling
let out_type ppf t = Format_doc.compat !Toploop.print_out_type ppf t
let on_main_domain = Domain.is_main_domain
