let all = Load_path.get_path_list

(* [Load_path.remove_dir] forgets how to find what comes with the compiler. *)
let remove folder =
  let { Load_path.visible; hidden } = Load_path.get_paths () in
  if List.mem folder visible then
    Load_path.init ~auto_include:Compmisc.auto_include ~hidden
      ~visible:(List.filter (( <> ) folder) visible)
