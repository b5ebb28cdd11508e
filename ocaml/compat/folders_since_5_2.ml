let all = Load_path.get_path_list
