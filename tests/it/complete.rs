//! `complete`: what can be written at a place.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, assert_timed_out, each, payload};

const SESSION: &str = "type rt = { fld : int; flo : string };; \
let r = { fld = 1; flo = \"\" };; \
let rr = ref r;; \
module M = struct type t = { a : int; b : int } let r2 = { a = 1; b = 2 } let v = 1 end;; \
let o = object method m1 = 1 method m2 x = x + 1 end;; \
let f ~len ?(start = 0) () = len + start;; \
class cls = object end;; module type SIG = sig end;; \
let my_count = 1;; \
type sot = SoA | SoB of int * (int -> int);; \
let compare = 1";

/// A source whose end is the place, and the first completions: name, kind in brackets, type.
const CASES: &[(&str, &str)] = &[
    // by the position of the name
    ("Lis", "List[module] ListLabels[module]"),
    (
        "List.fold_left_",
        "fold_left_map[value]: ('acc -> 'a -> 'acc * 'b) -> 'acc -> 'a list -> 'acc * 'b list",
    ),
    ("my_", "my_count[value]: int"),
    ("compar", "compare[value]: int"),
    ("M.", "r2[value]: M.t; v[value]: int"),
    (
        "So",
        "SoA[constructor]: sot; SoB[constructor]: int * (int -> int) -> sot; Some[constructor]: 'a -> 'a option",
    ),
    ("Not_f", "Not_found[exception]: exn"),
    ("let x : st", "string[type]: type string"),
    ("let x : M.", "t[type]: type t = { a : int; b : int; }"),
    (
        "type t = A of so",
        "sot[type]: type sot = SoA | SoB of int * (int -> int)",
    ),
    ("let f (x : int) : stri", "string[type]: type string"),
    ("(fun (x : int) -> my", "my_count[value]: int"),
    ("let x : int = my", "my_count[value]: int"),
    ("open Lis", "List[module] ListLabels[module]"),
    ("module X = Lis", "List[module] ListLabels[module]"),
    ("module X : SI", "SIG[module type]"),
    ("new cl", "cls[class]"),
    ("String.concat (my", "my_count[value]: int"),
    ("zzz", ""),
    // fields
    ("r.", "fld[field]: int; flo[field]: string"),
    ("1 + r.fl", "fld[field]: int; flo[field]: string"),
    ("!rr.", "fld[field]: int; flo[field]: string"),
    ("(r).", "fld[field]: int; flo[field]: string"),
    ("rr.contents.", "fld[field]: int; flo[field]: string"),
    ("M.r2.", "a[field]: int; b[field]: int"),
    ("M.r2.M.", "a[field]: int; b[field]: int"),
    ("fun q -> q.M.", "a[field]: int; b[field]: int"),
    ("let g (q : rt) = q.", "fld[field]: int; flo[field]: string"),
    (
        "{ fl",
        "fld[field]: int; flo[field]: string; float[value]: int -> float …",
    ),
    (
        "{ r with fl",
        "fld[field]: int; flo[field]: string; float[value]: int -> float …",
    ),
    // methods and labels
    ("o#", "m1[method]: int; m2[method]: int -> int"),
    ("(o)#m2", "m2[method]: int -> int"),
    (
        "let p = o in p#m",
        "m1[method]: int; m2[method]: int -> int",
    ),
    ("f ~", "~len[label]: int; ~start[label]: int"),
    ("f ~len:3 ~", "~start[label]: int"),
    ("1 + f ~le", "~len[label]: int"),
    ("f ?", "?start[label]: int option"),
    ("ListLabels.map [1] ~", "~f[label]: 'a -> 'b"),
    ("let g ~lab () = lab + 1 in g ~", "~lab[label]: int"),
    ("let g ~", ""),
    ("fun ~", ""),
    // directives
    ("#direct", "directory[directive]"),
    ("1;; #direct", "directory[directive]"),
    ("#show_module Lis", "List[module] ListLabels[module]"),
    // locals
    ("let foobar = 1 in foo", "foobar[local]: int"),
    ("let h quux = qu", "quux[local]: 'a"),
    (
        "let h (qua : int) (quu : string) = if qu",
        "qua[local]; quu[local]",
    ),
    ("let (qua, quu) = r in qu", "qua[local]; quu[local]"),
    ("match r with quu -> qu", "quu[local]: rt"),
    ("List.map (fun quu -> qu", "quu[local]: 'a"),
    ("function Some quu -> qu", "quu[local]: 'a"),
    ("for quu = 0 to 3 do qu", "quu[local]: int"),
    ("(let quu = 1 in quu) + qu", ""),
    (
        "let rec quu n = if n = 0 then 1 else qu",
        "quu[local]: int -> int",
    ),
    ("let my_count = \"\" in my", "my_count[local]: string"),
    // what the source itself defines and opens
    (
        "let mine = 3;; min",
        "mine[value]: int; min[value]: 'a -> 'a -> 'a …",
    ),
    (
        "let mine = 3\nlet his = min",
        "mine[value]: int; min[value]: 'a -> 'a -> 'a …",
    ),
    ("oops;; let mine = 3;; mine", "mine[value]: int"),
    (
        "open List;; fold_left_",
        "fold_left_map[value]: ('acc -> 'a -> 'acc * 'b) -> 'acc -> 'a list -> 'acc * 'b list",
    ),
    (
        "let open List in rev_a",
        "rev_append[value]: 'a list -> 'a list -> 'a list",
    ),
    (
        "List.(rev_a",
        "rev_append[value]: 'a list -> 'a list -> 'a list",
    ),
    (
        "oops (List.(rev_a",
        "rev_append[value]: 'a list -> 'a list -> 'a list",
    ),
    (
        "let module Q = List in Q.rev_a",
        "rev_append[value]: 'a list -> 'a list -> 'a list",
    ),
    // nothing
    ("\"Lis", ""),
    ("{|Lis", ""),
    ("(* Lis", ""),
    ("'a", ""),
    ("12", ""),
    ("(1)", ""),
    ("~", ""),
    ("x#", ""),
    (")]}#", ""),
    ("end.", ""),
    ("#use \"", ""),
];

fn shown(reply: &Value) -> String {
    let one = |completion: &Value| {
        let text = |key: &str| completion[key].as_str().map(str::to_string);
        let head = format!("{}[{}]", text("name").unwrap(), text("kind").unwrap());
        match text("type") {
            Some(typ) => format!(
                "{head}: {};",
                typ.split_whitespace().collect::<Vec<_>>().join(" ")
            ),
            None => head,
        }
    };
    let completions = reply["completions"].as_array().expect("completions");
    completions.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Without what differs by version: the names of type variables, and `;` where a type is missing.
fn plain(text: &str) -> String {
    text.replace(';', "")
        .replace("'acc", "'a")
        .replace("'b", "'a")
        .replace("'c", "'a")
}

#[test]
fn names_are_completed_by_where_they_stand() {
    each(|executable| {
        let mut client = Client::start(executable);
        assert_eq!(client.eval(SESSION)["error"], Value::Null);
        for (source, expected) in CASES {
            let (reply, is_error) = client.call("complete", json!({ "source": source }));
            assert!(!is_error, "{source}: {reply}");
            let shown = plain(&shown(&reply));
            match expected.strip_suffix(" …") {
                Some(head) => assert!(shown.starts_with(&plain(head)), "{source}: {shown}"),
                None => {
                    // A local whose type is unknown to some version.
                    let same = shown == plain(expected)
                        || shown.split(": ").next() == plain(expected).split(": ").next()
                            && source.starts_with("let h (qua");
                    assert!(same, "{source}: {shown}, not {expected}");
                }
            }
            assert_eq!(reply["stderr"], Value::Null, "{source}");
        }
        assert_eq!(client.eval("my_count")["value_repr"], "1");
    });
}

#[test]
fn the_place_is_a_line_and_a_column_in_characters() {
    each(|executable| {
        let mut client = Client::start(executable);
        let source = "let s = \"éé\" in List.ma s\nlet t = Arr.x";
        let mut at = |line: Value, column: Value| {
            let arguments = json!({ "source": source, "line": line, "column": column });
            client.call("complete", arguments)
        };
        let (reply, _) = at(json!(1), json!(23));
        assert_eq!(
            (&reply["start_column"], &reply["prefix"]),
            (&json!(21), &json!("ma"))
        );
        assert_eq!(reply["completions"][0]["name"], "map");
        let (reply, _) = at(json!(2), json!(11));
        assert_eq!(
            (&reply["start_column"], &reply["prefix"]),
            (&json!(8), &json!("Arr"))
        );
        assert_eq!(reply["completions"][0]["name"], "Array");
        let (reply, _) = at(Value::Null, json!(9));
        assert_eq!(
            (&reply["start_column"], &reply["prefix"]),
            (&json!(8), &json!("A"))
        );
        for (line, column, expected) in [
            (json!(0), Value::Null, "line must be from 1 to 2"),
            (json!(3), Value::Null, "line must be from 1 to 2"),
            (json!(2), json!(14), "column must be from 0 to 13"),
        ] {
            let (reply, is_error) = at(line, column);
            assert!(is_error && reply["phase"] == "arguments", "{reply}");
            assert!(
                reply["error"].as_str().unwrap().contains(expected),
                "{reply}"
            );
        }
    });
}

#[test]
fn the_limit_cuts_the_list_and_not_the_total() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let zeta = 1 and alpha = 2");
        let (reply, _) = client.call("complete", json!({ "source": "", "limit": 3 }));
        let names: Vec<_> = (0..4)
            .map(|i| reply["completions"][i]["name"].clone())
            .collect();
        assert_eq!(names[..2], [json!("alpha"), json!("zeta")]);
        assert_eq!((&names[2].is_string(), &names[3]), (&true, &Value::Null));
        assert!(reply["total"].as_u64() > Some(200), "{reply}");
        let (reply, _) = client.call("complete", json!({ "source": "" }));
        assert_eq!(reply["completions"].as_array().map(Vec::len), Some(100));
    });
}

#[test]
fn completion_leaves_no_trace() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let cell = ref [] and counter = ref 0");
        for source in [
            "cell := [1];; incr counter;; let my = 1;; m",
            "let x = cell := [1] in x",
            "(incr counter; !cell @ [1]).",
            "[@@@warning \"-8\"];; x",
            "let x : int = \"a\";; x",
            "\"unfinished",
            "(* unfinished",
        ] {
            client.call("complete", json!({ "source": source }));
            assert_eq!(client.eval("!counter")["value_repr"], "0", "{source}");
        }
        let (env, _) = client.call("env", json!({}));
        assert_eq!(env["total"], 2);
        let warned = client.eval("let f = function Some x -> x");
        assert_eq!(
            warned["warnings"].as_array().map(Vec::len),
            Some(1),
            "{warned}"
        );
        assert_eq!(client.eval("cell := [true]; !cell")["type"], "bool list");
    });
}

#[test]
fn cancel_stops_a_completion() {
    let steps: String = (1..40)
        .map(|n| format!("let f{n} = fun x -> f{} (f{} x) in\n", n - 1, n - 1))
        .collect();
    let source = format!("let f = let f0 = fun x -> (x, x) in\n{steps} f39;; f");
    each(|executable| {
        let mut client = Client::start(executable);
        let completing = client.begin_call("complete", json!({ "source": source }));
        thread::sleep(Duration::from_millis(200));
        client.begin_call("cancel", json!({}));
        let mut replies = [client.receive(), client.receive()];
        replies.sort_by_key(|reply| reply["id"].as_u64());
        assert_eq!(replies[0]["id"], completing);
        let (reply, is_error) = payload(&replies[0]);
        assert!(is_error, "{reply}");
        assert_timed_out(&reply);
        assert_eq!(client.eval("let x = 1 in x + 1")["value_repr"], "2");
    });
}
