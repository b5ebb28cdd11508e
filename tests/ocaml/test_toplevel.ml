(* Each check names what it checks; the first that fails ends the run. *)

open Topup_byte

let check name condition =
  if not condition then begin
    prerr_endline ("failed: " ^ name);
    exit 1
  end

let texts source =
  let phrases = Phrases.of_source source in
  Phrases.within phrases (fun () ->
      let rec all acc =
        match Phrases.next phrases with
        | Some { text; _ } -> all (text :: acc)
        | None -> List.rev acc
      in
      all [])

let phrases () =
  check "nothing is no phrase" (texts "" = []);
  check "a comment is no phrase" (texts "(* c *)" = []);
  check "the final ;; may be missing" (texts "1" = [ "1" ]);
  check "the final ;; belongs to its phrase" (texts "1;;\n" = [ "1;;" ]);
  check "phrases are texts as written"
    (texts "let x = 1;; (* c *) x\n+ 1" = [ "let x = 1;;"; "(* c *) x\n+ 1" ]);
  check "definitions without ;; are one phrase"
    (texts "let x = 1 let y = 2" = [ "let x = 1 let y = 2" ]);
  check "a directive is a phrase" (texts "#show list;; 1" = [ "#show list;;"; "1" ]);
  let file = Phrases.of_file ~name:"f.ml" "let x = 1 let y = 2;; #show x" in
  let rec count n = match Phrases.next file with Some _ -> count (n + 1) | None -> n in
  check "a file's definitions are phrases of their own"
    (Phrases.within file (fun () -> count 0) = 3);
  match texts "let x = " with
  | _ -> check "an unfinished phrase is an error" false
  | exception exn -> check "of syntax" (Location.error_of_exn exn <> None)

let eval source = Toplevel.eval source
let value source = (eval source).value_repr

(* What the phrase log would get. *)
let logged source =
  let records = ref [] in
  (Evaluation.succeeded := fun record -> records := record :: !records);
  ignore (eval source);
  Evaluation.succeeded := ignore;
  List.rev !records

let records () =
  check "a record ends in ;;" (logged "let f x = x + 1" = [ "let f x = x + 1;;" ]);
  check "but once" (logged "let c = 3;; c" = [ "let c = 3;;"; "c;;" ]);
  check "those before the failure" (logged "let c = 3;; oops;; let d = 4" = [ "let c = 3;;" ]);
  check "comments belong to it" (logged "(* a *) 1 (* b *)" = [ "(* a *) 1 (* b *);;" ]);
  check "not behind a line directive" (logged "1\n# 2 \"f\"" = [ "1\n# 2 \"f\"\n;;" ]);
  check "directives that set something"
    (logged "#labels false;; #show list;; #help" = [ "#labels false;;" ])

let outcomes () =
  let o = eval "let f x = x + 1" in
  check "value" (o.value_repr = Some "<fun>");
  check "type" (o.typ = Some "int -> int");
  check "name" (o.name = Some "f");
  let o = eval "let a = 1;; let b = 2;; a + b" in
  check "earlier" (o.earlier = [ "val a : int = 1"; "val b : int = 2" ]);
  let o = eval "let c = 3;; oops;; let d = 4" in
  check "those after it did not run" (value "d" = None);
  check "no value of a failed run" (o.value_repr = None && o.typ = None);
  match o.diagnostics with
  | [ { severity = Error; kind = Type; span = Some span; message; _ } ] ->
    check "span" (span = { line = 1; column = 12; end_line = 1; end_column = 16 });
    check "message" (message = "Unbound value \"oops\"" || message = "Unbound value oops")
  | _ -> check "one diagnostic" false

let columns () =
  match (eval "let s = \"\xc3\xa9\xc3\xa9\" in s + 1").diagnostics with
  | [ { span = Some { column; end_column; _ }; _ } ] ->
    check "columns count characters" (column = 16 && end_column = 17)
  | _ -> check "one diagnostic" false

let undone () =
  ignore (eval "let x = 1 let y = \"y\"");
  check "raises" ((eval "let x = \"two\" let y = failwith \"stop\"").error <> None);
  check "the value is the old one" (value "x + 1" = Some "2");
  ignore (eval "let r = ref []");
  ignore (eval "r := [1]; !r + 1");
  check "a rejected phrase settles no type variable" ((eval "r").typ = Some "'_weak1 list ref");
  ignore (eval "[@@@warning \"-8\"] let z : int = \"a\"");
  check "nor the state of warnings" (List.length (eval "function 1 -> 2").warnings = 1)

let warnings () =
  match (eval "let f = function Some x -> x").diagnostics with
  | [ { severity = Warning; kind = Lint; code = "W008"; _ } ] -> ()
  | _ -> check "a warning has its number" false

let hidden () =
  (* The compiler's own units are linked in, too. *)
  check "user code does not see the compiler" ((eval "Clflags.debug").error <> None)

let packages () =
  check "packages load" ((eval "#require \"str\";; #require \"stdlib str\"").error = None);
  check "and are known by the names that were required, once each"
    (Toplevel.packages () = [ "str"; "stdlib" ]);
  ignore (eval "#require \"no-such-package\"");
  check "those that failed are not" (Toplevel.packages () = [ "str"; "stdlib" ]);
  Toplevel.reset ();
  check "a reset forgets them" (Toplevel.packages () = [])

let () =
  Toplevel.boot ();
  phrases ();
  outcomes ();
  records ();
  columns ();
  undone ();
  warnings ();
  hidden ();
  packages ();
  print_endline "tests/ocaml: all checks hold"
