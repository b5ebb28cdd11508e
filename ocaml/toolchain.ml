let environment = ref (fun () -> "")
let command text = !environment () ^ text

let read file =
  let ic = open_in_bin file in
  Fun.protect
    ~finally:(fun () -> close_in_noerr ic)
    (fun () -> really_input_string ic (in_channel_length ic))

let remove file = try Sys.remove file with Sys_error _ -> ()

let output words =
  let out = Filename.temp_file "topup" ".out" and err = Filename.temp_file "topup" ".err" in
  Fun.protect
    ~finally:(fun () -> remove out; remove err)
    (fun () ->
      let program = String.concat " " (List.map Filename.quote words) in
      let text = Printf.sprintf "%s >%s 2>%s" program (Filename.quote out) (Filename.quote err) in
      match Sys.command (command text) with
      | 0 -> Ok (read out)
      | status -> Error (status, String.trim (read err)))
