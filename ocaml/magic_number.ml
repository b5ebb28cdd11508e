type kind =
  | Bytecode of extension
  | Machine_code of extension
  | Interface
  | Source
  | C_code
  | Other

and extension = string

let length = String.length Config.cmo_magic_number

let first_bytes path =
  let ic = open_in_bin path in
  Fun.protect
    ~finally:(fun () -> close_in_noerr ic)
    (fun () -> really_input_string ic (min length (in_channel_length ic)))

let is_number text =
  String.length text = length && String.starts_with ~prefix:"Caml1999" text

let read path =
  let text = first_bytes path in
  if is_number text then text else ""

let by_name path =
  match Filename.extension path with
  | ".cmxs" -> Machine_code ".cmxs"
  | ".ml" | ".mli" | ".mly" | ".mll" -> Source
  | ".o" | ".a" | ".so" | ".c" -> C_code
  | _ -> Other

let kind path =
  let text = first_bytes path in
  if not (is_number text) then by_name path
  else
    match text.[8] with
    | 'O' -> Bytecode ".cmo"
    | 'A' -> Bytecode ".cma"
    | 'Y' | 'y' -> Machine_code ".cmx"
    | 'Z' | 'z' -> Machine_code ".cmxa"
    | 'I' | 'T' -> Interface
    | 'M' | 'N' -> Source
    | _ -> Other

(* The last three digits name the release that wrote the file. *)
let release number =
  match String.sub number 9 3 with
  | "028" -> "4.11"
  | "029" -> "4.12"
  | "030" -> "4.13"
  | "031" -> "4.14"
  | "032" -> "5.0"
  | "033" -> "5.1"
  | "034" -> "5.2"
  | "035" -> "5.3"
  | "036" -> "5.4"
  | _ -> "another version"

let problem number ~wanted =
  if number = wanted then None
  else if String.sub number 9 3 = String.sub wanted 9 3 then
    Some "was compiled for a compiler that is configured otherwise (flambda)"
  else
    Some
      (Printf.sprintf
         "was compiled by OCaml %s (magic number %s), and this is OCaml %s (%s); compile it \
          again with this one's compiler"
         (release number) number Sys.ocaml_version wanted)
