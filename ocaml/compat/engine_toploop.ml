(* [Toploop.execute_phrase] does the work; its outcome is caught before it is printed. *)

type ended =
  | Returned of Outcometree.out_phrase
  | Raised of Outcometree.out_phrase * string

let caught = ref (Outcometree.Ophr_signature [])

let install () =
  Printexc.record_backtrace true;
  Toploop.print_out_phrase := fun _ phrase -> caught := phrase

let sheet = Diagnostic.sheet ()

let run ppf structure =
  caught := Ophr_signature [];
  let finished = ref false in
  let execute local () =
    finished := Toploop.execute_phrase true local (Parsetree.Ptop_def structure)
  in
  let rest = Diagnostic.text_on sheet execute () in
  if !finished then begin
    Format.pp_print_string ppf rest;
    Returned !caught
  end
  else Raised (!caught, Variant.backtrace rest)
