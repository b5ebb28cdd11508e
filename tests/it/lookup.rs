//! `lookup`: what a name is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, assert_timed_out, each, payload, toolchain};

/// The phrases of the session, each in a call of its own.
const PHRASES: [&str; 14] = [
    "(** Adds one.\n\n      let y = f 1\n    *)\nlet f x = x + 1",
    "let g = 2;;",
    "module M = struct type t = A (** the A *) | B of int let v = 3 (** three *) end",
    "exception E of int * string (** the E *)",
    "type x = { fld : int (** the field *); mutable name : string } (** the record *)",
    "let x = { fld = 1; name = \"é\" }",
    "class c = object method m = 1 end",
    "class type ct = object method z : int end",
    "module type S = sig type t val v : t (** the v *) end",
    "module Ints = Set.Make (Int)",
    "type ext = ..;; type ext += Ext of int",
    "let ( let* ) = Option.bind and ( +! ) a b = a + b",
    "let r = List.init 1000 string_of_int",
    "let a = 1 let b, c =\n  2,\n  3",
];

/// Name, kind, type, location, preview, doc.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
);

/// What the replies must have: a text that ends in … begins so.
const FOUND: &[Case] = &[
    (
        "f",
        "value",
        "int -> int",
        Some("phrase 1, line 5, characters 4-5"),
        Some("<fun>"),
        Some("Adds one.\n\nlet y = f 1"),
    ),
    (
        " g ",
        "value",
        "int",
        Some("phrase 2, line 1, characters 4-5"),
        Some("2"),
        None,
    ),
    (
        "M",
        "module",
        "module M : sig type t = A | B of int val v : int end",
        Some("phrase 3, line 1, characters 0-…"),
        None,
        None,
    ),
    (
        "M.t",
        "type",
        "type t = A | B of int",
        Some("phrase 3, line 1, characters 18-…"),
        None,
        None,
    ),
    (
        "M.A",
        "constructor",
        "type t = A | B of int",
        Some("phrase 3, line 1, characters 27-28"),
        None,
        Some("the A"),
    ),
    (
        "M.v",
        "value",
        "int",
        Some("phrase 3, line 1, characters 57-58"),
        Some("3"),
        Some("three"),
    ),
    (
        "E",
        "exception",
        "exception E of int * string",
        Some("phrase 4, …"),
        None,
        Some("the E"),
    ),
    (
        "fld",
        "field",
        "type x = { fld : int; mutable name : string; }",
        Some("phrase 5, …"),
        None,
        Some("the field"),
    ),
    (
        "x",
        "value",
        "x",
        Some("phrase 6, line 1, characters 4-5"),
        Some("{fld = 1; name = \"é\"}"),
        None,
    ),
    (
        "c",
        "value",
        "int",
        Some("phrase 15, line 1, characters 17-18"),
        Some("3"),
        None,
    ),
    (
        "ct",
        "class type",
        "class type ct = object method z : int end",
        Some("phrase 8, …"),
        None,
        None,
    ),
    (
        "S",
        "module type",
        "module type S = sig type t val v : t end",
        Some("phrase 9, …"),
        None,
        None,
    ),
    (
        "Ext",
        "constructor",
        "type ext += Ext of int",
        Some("phrase 12, line 1, characters 12-22"),
        None,
        None,
    ),
    (
        "let*",
        "value",
        "'a option -> ('a -> 'b option) -> 'b option",
        Some("phrase 13, …"),
        Some("<fun>"),
        None,
    ),
    (
        "( +! )",
        "value",
        "int -> int -> int",
        Some("phrase 13, …"),
        Some("<fun>"),
        None,
    ),
    (
        "b",
        "value",
        "int",
        Some("phrase 15, line 1, characters 14-15"),
        Some("2"),
        None,
    ),
    (
        "Ints.add",
        "value",
        "Ints.elt -> Ints.t -> Ints.t",
        Some("File \"…"),
        Some("<fun>"),
        Some("[add …"),
    ),
    (
        "Ints.elt",
        "type",
        "type elt = Int.t",
        Some("File \"…"),
        None,
        None,
    ),
    (
        "List.map",
        "value",
        "('a -> 'b) -> 'a list -> 'b list",
        Some("File \"…"),
        Some("<fun>"),
        Some("[map f [a1; ...; an]] applies…"),
    ),
    (
        "Stdlib.List.map",
        "value",
        "('a -> 'b) -> 'a list -> 'b list",
        Some("File \"…"),
        Some("<fun>"),
        Some("[map f [a1; ...; an]] applies…"),
    ),
    (
        "List",
        "module",
        "module List …",
        Some("File \"…"),
        None,
        Some("List operations…"),
    ),
    (
        "+",
        "value",
        "int -> int -> int",
        Some("File \"…"),
        None,
        Some("Integer addition.…"),
    ),
    (
        "(*)",
        "value",
        "int -> int -> int",
        Some("File \"…"),
        None,
        Some("Integer multiplication.…"),
    ),
    (
        "Stdlib.( @ )",
        "value",
        "'a list -> 'a list -> 'a list",
        Some("File \"…"),
        Some("<fun>"),
        Some("…"),
    ),
    ("Map.S.t", "", "", None, None, None),
    (
        "Map.OrderedType",
        "module type",
        "module type OrderedType = sig type t val compare : t -> t -> int end",
        Some("File \"…"),
        None,
        Some("Input signature…"),
    ),
    (
        "Set.Make(Int).t",
        "type",
        "type t = Set.Make(Int).t",
        Some("File \"…"),
        None,
        Some("The type of sets."),
    ),
    (
        "Some",
        "constructor",
        "type 'a option = None | Some of 'a",
        None,
        None,
        None,
    ),
    (
        "::",
        "constructor",
        "type 'a list = [] | (::) of 'a * 'a list",
        None,
        None,
        None,
    ),
    (
        "Not_found",
        "exception",
        "exception Not_found",
        None,
        None,
        None,
    ),
    ("int", "type", "type int", None, None, None),
    (
        "Seq.Cons",
        "constructor",
        "type 'a node = 'a Seq.node = Nil | Cons of 'a * 'a Seq.t",
        Some("File \"…"),
        None,
        None,
    ),
];

fn begins(found: &Value, expected: Option<&str>) -> bool {
    match expected {
        None => found.is_null(),
        Some(text) => found
            .as_str()
            .is_some_and(|found| match text.strip_suffix('…') {
                Some(head) => found.starts_with(head),
                None => found == text,
            }),
    }
}

fn with_phrases(mut client: Client) -> Client {
    for phrase in PHRASES {
        let reply = client.eval(phrase);
        assert!(reply["error"].is_null(), "{reply}");
    }
    client
}

#[test]
fn every_kind_of_name_is_found() {
    each(|executable| {
        let mut client = with_phrases(Client::start(executable));
        for (name, kind, typ, location, preview, doc) in FOUND {
            let (reply, is_error) = client.call("lookup", json!({ "name": name }));
            if kind.is_empty() {
                assert!(is_error, "{name}: {reply}");
                continue;
            }
            assert!(!is_error, "{name}: {reply}");
            assert_eq!(reply["name"], name.trim());
            assert_eq!(reply["kind"], *kind, "{name}: {reply}");
            // Versions break lines at different places.
            let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let found = spaced(reply["type"].as_str().unwrap_or_default());
            assert!(begins(&json!(found), Some(&spaced(typ))), "{name}: {reply}");
            assert!(begins(&reply["location"], *location), "{name}: {reply}");
            assert!(begins(&reply["value_preview"], *preview), "{name}: {reply}");
            assert!(begins(&reply["doc"], *doc), "{name}: {reply}");
        }
    });
}

#[test]
fn the_file_of_a_library_is_where_it_is_installed() {
    each(|executable| {
        let mut client = Client::start(executable);
        for name in ["List.map", "List", "Printf.sprintf"] {
            let location = client.call("lookup", json!({ "name": name })).0["location"].clone();
            let path = location.as_str().unwrap().split('"').nth(1).unwrap();
            assert!(
                Path::new(path).is_absolute() && Path::new(path).exists(),
                "{path}"
            );
        }
    });
}

#[test]
fn a_name_of_several_namespaces_has_them_all() {
    each(|executable| {
        let mut client = with_phrases(Client::start(executable));
        let mut kinds = |name: &str| {
            let (reply, _) = client.call("lookup", json!({ "name": name }));
            let also = reply["also"].as_array().cloned().unwrap_or_default();
            let mut kinds = vec![reply["kind"].as_str().unwrap().to_string()];
            kinds.extend(
                also.iter()
                    .map(|other| other["kind"].as_str().unwrap().to_string()),
            );
            kinds.join(", ")
        };
        assert_eq!(kinds("x"), "value, type");
        assert_eq!(kinds("c"), "value, class");
        assert_eq!(kinds("List"), "module");
        assert_eq!(kinds("name"), "field");
        assert_eq!(kinds("ct"), "class type");
    });
}

#[test]
fn a_long_value_is_previewed() {
    each(|executable| {
        let mut client = with_phrases(Client::start(executable));
        let (reply, _) = client.call("lookup", json!({ "name": "r" }));
        let preview = reply["value_preview"].as_str().unwrap();
        assert!(
            preview.starts_with("[\"0\"; \"1\"") && preview.ends_with('…'),
            "{preview}"
        );
        assert!(preview.chars().count() <= 201, "{preview}");
        let reply = client.eval("List.length r");
        assert_eq!(reply["value_repr"], "1000");
        let shown = client.eval("r");
        assert!(
            shown["value_repr"].as_str().unwrap().contains("\"200\""),
            "the limits are back"
        );
    });
}

#[test]
fn an_unknown_name_is_an_error_that_names_near_ones() {
    let long = "a".repeat(10_000);
    let cases = [
        (
            "List.mpa",
            "nothing is named mpa in List; did you mean List.map?",
        ),
        (
            "Lits.map",
            "no module is named Lits; did you mean List.map?",
        ),
        (
            "Stdlib.Lits.map",
            "no module is named Lits in Stdlib; did you mean Stdlib.List.map?",
        ),
        ("print_endlin", "did you mean print_endline?"),
        ("Not_fond", "did you mean Not_found?"),
        ("optoin", "did you mean option?"),
        ("Hashtabl", "did you mean Hashtbl?"),
        ("Set.Make.t", "nothing is named t in Set.Make"),
        ("é", "é"),
        ("", "the name is empty"),
        ("  ", "the name is empty"),
        ("1x", "is not a name"),
        ("List.", "is not a name"),
        ("List.map x", "is not a name"),
        ("let", "is not a name"),
        ("list.map", "begin with a capital letter"),
        ("\"text", "is not a name"),
        ("(* x", "is not a name"),
        ("{|x", "is not a name"),
        ("x\u{0}y", "is not a name"),
        (&long, "10000 bytes"),
    ];
    each(|executable| {
        let mut client = Client::start(executable);
        for (name, expected) in &cases {
            let (reply, is_error) = client.call("lookup", json!({ "name": name }));
            assert!(is_error, "{name}: {reply}");
            assert_eq!(reply["phase"], "arguments");
            let error = reply["error"].as_str().unwrap();
            assert!(
                error.contains(expected) && error.len() < 400,
                "{name}: {reply}"
            );
            assert_eq!(client.eval("1 + 1")["value_repr"], "2");
        }
    });
}

#[test]
fn a_definition_keeps_its_phrase_when_others_follow() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let a = 1;; a + 1;; let b = 2;; let failed = raise Exit");
        client.eval("a;; let a = \"shadows\"");
        let mut location =
            |name: &str| client.call("lookup", json!({ "name": name })).0["location"].clone();
        assert_eq!(location("b"), "phrase 3, line 1, characters 4-5");
        assert_eq!(location("a"), "phrase 5, line 1, characters 4-5");
        client.call("reset", json!({}));
        client.eval("let b = 3");
        let location = client.call("lookup", json!({ "name": "b" })).0["location"].clone();
        assert_eq!(location, "phrase 1, line 1, characters 4-5");
    });
}

#[test]
fn cancel_stops_a_printer() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval(
            "type t = T;; (** loops *) let v = T;; let pp _ T = while true do () done;; \
             #install_printer pp",
        );
        let looking = client.begin_call("lookup", json!({ "name": "v" }));
        thread::sleep(Duration::from_millis(200));
        let cancelling = client.begin_call("cancel", json!({}));
        let mut replies = [client.receive(), client.receive()];
        replies.sort_by_key(|reply| reply["id"].as_u64());
        assert_eq!(
            (&replies[0]["id"], &replies[1]["id"]),
            (&json!(looking), &json!(cancelling))
        );
        let (reply, is_error) = payload(&replies[0]);
        assert!(is_error);
        assert_timed_out(&reply);
        assert!(reply["value_preview"].is_null());
        assert_eq!(
            (&reply["type"], &reply["doc"]),
            (&json!("t"), &json!("loops"))
        );
        assert_eq!(client.eval("#remove_printer pp;; v")["value_repr"], "T");
    });
}

#[test]
fn a_printer_may_print_and_raise() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval(
            "type t = T;; let v = T;; let pp _ T = print_string \"loud\"; failwith \"no\";; \
             #install_printer pp",
        );
        let (reply, is_error) = client.call("lookup", json!({ "name": "v" }));
        assert!(!is_error, "{reply}");
        assert!(
            reply["value_preview"].as_str().unwrap().contains("raised"),
            "{reply}"
        );
        assert_eq!(reply["stdout"], "loud");
    });
}

const INTERFACE: &str = "(** About the library. *)\n\n(** Twice. *)\nval twice : int -> int\n";

/// Compiles a small library, which is not loaded.
fn library(directory: &Path) {
    fs::write(directory.join("documented.mli"), INTERFACE).expect("written");
    let status = Command::new(Path::new(&toolchain("bin")).join("ocamlc"))
        .args(["-bin-annot", "-c", "documented.mli"])
        .current_dir(directory)
        .status();
    assert!(status.expect("the compiler runs").success());
}

#[test]
fn damaged_files_beside_an_interface_only_cost_the_doc() {
    let directory = tempfile::tempdir().expect("a directory");
    library(directory.path());
    let cmti = directory.path().join("documented.cmti");
    let whole = fs::read(&cmti).expect("read");
    let mut other_version = whole.clone();
    let magic = whole
        .windows(8)
        .position(|bytes| bytes == b"Caml1999")
        .unwrap_or(0);
    let second = whole[magic + 8..]
        .windows(8)
        .position(|bytes| bytes == b"Caml1999");
    other_version[magic + 8 + second.unwrap_or(0) + 10] = b'0';
    let half = whole[..whole.len() - whole.len() / 4].to_vec();
    let cases = [
        (whole, Some("Twice.")),
        (half, None),
        (other_version, None),
        (b"no such thing".to_vec(), None),
        (Vec::new(), None),
    ];
    each(|executable| {
        for (bytes, doc) in &cases {
            fs::write(&cmti, bytes).expect("written");
            let mut client = Client::start(executable);
            client.eval(&format!("#directory {:?}", directory.path()));
            let (reply, is_error) = client.call("lookup", json!({ "name": "Documented.twice" }));
            assert!(!is_error, "{reply}");
            assert_eq!(reply["type"], "int -> int");
            assert!(begins(&reply["doc"], *doc), "{reply}");
            assert!(
                reply["value_preview"].is_null(),
                "it is not loaded: {reply}"
            );
            assert_eq!(reply["stderr"], Value::Null);
        }
    });
}
