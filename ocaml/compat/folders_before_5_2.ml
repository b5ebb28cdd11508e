let all = Load_path.get_paths
let remove = Load_path.remove_dir
