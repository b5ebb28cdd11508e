let all = Load_path.get_paths
