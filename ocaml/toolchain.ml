let environment = ref (fun () -> "")
let command text = !environment () ^ text
