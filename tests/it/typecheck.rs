//! `typecheck`: the types of code that is not run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, assert_timed_out, each, payload, toolchain};

fn typecheck(client: &mut Client, source: &str) -> (Value, bool) {
    client.call("typecheck", json!({ "source": source }))
}

/// A source and the texts of its phrases, one a line.
const TYPES: [(&str, &str); 14] = [
    ("let f x = x + 1", "val f : int -> int"),
    (
        "let f x = x + 1;; List.map f;; f",
        "val f : int -> int\n- : int list -> int list\n- : int -> int",
    ),
    ("print_string \"never\"; exit 3", "- : 'a"),
    ("let a = 1 let b = \"b\"", "val a : int\nval b : string"),
    (
        "type t = A | B of int;; [A; B 1]",
        "type t = A | B of int\n- : t list",
    ),
    (
        "module M = struct let v = 1 end;; M.v",
        "module M : sig val v : int end\n- : int",
    ),
    (
        "exception E of int;; raise (E 1)",
        "exception E of int\n- : 'a",
    ),
    ("let _ = [1]", "- : int list"),
    (
        "class c = object method m = 1 end;; (new c)#m",
        "class c : object method m : int end\n- : int",
    ),
    ("let g () = shared", "val g : unit -> int"),
    (
        "let shared = \"shadows\";; shared",
        "val shared : string\n- : string",
    ),
    ("open List;; map succ", "\n- : int list -> int list"),
    (
        "external id : 'a -> 'a = \"%identity\"",
        "external id : 'a -> 'a = \"%identity\"",
    ),
    ("  (* nothing *) ", ""),
];

#[test]
fn each_phrase_has_its_text() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let shared = 1");
        for (source, expected) in TYPES {
            let (reply, is_error) = typecheck(&mut client, source);
            assert!(!is_error, "{source}: {reply}");
            let types = reply["types"].as_array().expect("types").iter();
            let texts: Vec<_> = types.map(|text| text.as_str().expect("a text")).collect();
            assert_eq!(texts.join("\n"), expected, "{source}");
            assert_eq!(reply["warnings"], json!([]), "{source}");
            assert_eq!(reply["error"], Value::Null, "{source}");
            assert_eq!(reply["diagnostics"], json!([]), "{source}");
            assert_eq!(reply["stdout"], Value::Null, "{source}");
        }
        let (env, _) = client.call("env", json!({}));
        assert_eq!(
            env["bindings"],
            json!([{ "name": "shared", "type": "int" }])
        );
    });
}

#[test]
fn errors_and_warnings_are_those_of_eval() {
    each(|executable| {
        let mut client = Client::start(executable);
        for source in [
            "let x = 1 + true",
            "let x =",
            "oops",
            "let s = \"éé\" in s + 1",
            "[@@@warning \"@8\"];; let f = function Some x -> x",
            "let rec x = x + 1",
            "let x = 1 in\n  [%nothing]",
        ] {
            let (checked, is_error) = typecheck(&mut client, source);
            let evaluated = client.eval(source);
            assert!(is_error, "{source}: {checked}");
            for key in ["warnings", "error", "diagnostics"] {
                assert_eq!(checked[key], evaluated[key], "{source}");
            }
            client.call("reset", json!({}));
        }
        let source = "let f = function Some x -> x;; f (Some 1)";
        let (checked, is_error) = typecheck(&mut client, source);
        assert!(!is_error, "{checked}");
        assert_eq!(checked["diagnostics"][0]["code"], "W008");
        let evaluated = client.eval(source);
        for key in ["warnings", "error", "diagnostics"] {
            assert_eq!(checked[key], evaluated[key], "{source}");
        }
        let (reply, _) = typecheck(&mut client, "let a = 1;; a;; oops;; let b = 2");
        assert_eq!(reply["types"], json!(["val a : int", "- : int"]));
    });
}

#[test]
fn it_leaves_no_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    each(|executable| {
        let log = directory.path().join(executable.variant);
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_LOG", &log);
        });
        client.eval("let cell = ref [] and counter = ref 0");
        let logged = fs::read(&log).expect("a log");
        for source in [
            "cell := [1]; incr counter; !cell",
            "cell := [\"a\"]; 1 + true",
            "let cell = 1;; let fresh = cell + 1",
            "[@@@warning \"-8\"];; let f = function Some x -> x",
            "[@@@warning \"@8\"];; let f = function Some x -> x",
            "[@@@warning \"+32\"];; module M : sig end = struct let unused = 1 end",
            "#warnings \"-8\";; #use \"no such file\"",
            "open List;; let map = map",
            "type t = int;; exception Exit2;; module List = Array",
            "let x : ",
        ] {
            typecheck(&mut client, source);
        }
        let (env, _) = client.call("env", json!({}));
        assert_eq!(
            env["bindings"],
            json!([
                { "name": "cell", "type": "'_weak1 list ref" },
                { "name": "counter", "type": "int ref" }
            ])
        );
        assert_eq!(fs::read(&log).expect("a log"), logged);
        assert_eq!(client.eval("!counter")["value_repr"], "0");
        let warned = client.eval("let f = function Some x -> x");
        assert_eq!(warned["error"], Value::Null);
        assert_eq!(
            warned["warnings"].as_array().map(Vec::len),
            Some(1),
            "{warned}"
        );
        assert_eq!(client.eval("cell := [true]; !cell")["type"], "bool list");
        assert_eq!(client.eval("List.map succ [1]")["value_repr"], "[2]");
    });
}

#[test]
fn directives_are_named_and_not_run() {
    each(|executable| {
        let mut client = Client::start(executable);
        let (reply, is_error) = typecheck(&mut client, "#show list;; 1;; #use \"nothing\"");
        assert!(!is_error, "{reply}");
        assert_eq!(reply["types"], json!(["- : int"]));
        assert_eq!(reply["notice"], "#show, #use were not run");
    });
}

/// Turns [%answer] into 42.
const PPX: &str = "open Ast_mapper
let expr mapper (e : Parsetree.expression) =
  match e.pexp_desc with
  | Pexp_extension ({ txt = \"answer\"; _ }, _) -> Ast_helper.(Exp.constant (Const.int 42))
  | _ -> default_mapper.expr mapper e
let () = run_main (fun _ -> { default_mapper with expr })
";

#[test]
fn ppx_rewriters_are_applied() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("ppx.ml"), PPX).expect("written");
    let status = Command::new(Path::new(&toolchain("bin")).join("ocamlc"))
        .args([
            "-I",
            "+compiler-libs",
            "ocamlcommon.cma",
            "ppx.ml",
            "-o",
            "ppx",
        ])
        .current_dir(directory.path())
        .status();
    assert!(status.expect("the compiler runs").success());
    each(|executable| {
        let mut client = Client::start(executable);
        let ppx = directory.path().join("ppx");
        client.eval(&format!("#ppx {:?}", ppx.to_str().expect("text")));
        let (reply, is_error) = typecheck(&mut client, "let x = [%answer];; [x]");
        assert!(!is_error, "{reply}");
        assert_eq!(reply["types"], json!(["val x : int", "- : int list"]));
        let (reply, _) = client.call("complete", json!({ "source": "let xyz = [%answer];; xy" }));
        assert_eq!(reply["completions"][0]["type"], "int", "{reply}");
    });
}

/// The type of the last function has more than 2^`depth` nodes.
fn endless(depth: usize) -> String {
    let steps: String = (1..depth)
        .map(|n| format!("let f{n} = fun x -> f{} (f{} x) in\n", n - 1, n - 1))
        .collect();
    format!("let f0 = fun x -> (x, x) in\n{steps} f{}", depth - 1)
}

#[test]
fn cancel_stops_the_type_checker() {
    each(|executable| {
        let mut client = Client::start(executable);
        let checking = client.begin_call("typecheck", json!({ "source": endless(40) }));
        thread::sleep(Duration::from_millis(200));
        client.begin_call("cancel", json!({}));
        let mut replies = [client.receive(), client.receive()];
        replies.sort_by_key(|reply| reply["id"].as_u64());
        assert_eq!(replies[0]["id"], checking);
        let (reply, is_error) = payload(&replies[0]);
        assert!(is_error, "{reply}");
        assert_timed_out(&reply);
        assert_eq!(reply["diagnostics"][0]["kind"], "cancelled");
        assert_eq!(client.eval("let x = 1 in x + 1")["value_repr"], "2");
        assert_eq!(typecheck(&mut client, "1").0["types"], json!(["- : int"]));
    });
}
