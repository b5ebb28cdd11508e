//! `reset` is a fresh toplevel.

use std::fs;

use serde_json::json;

use crate::support::{Client, each, toolchain};

/// A phrase that changes something, one that shows it, and what that says in a fresh
/// toplevel.
const CHANGES: [(&str, &str, &str, &str); 9] = [
    ("let x = 1", "x", "error", "Unbound value"),
    ("type t = A", "A", "error", "Unbound constructor"),
    (
        "let pp ppf _ = Format.pp_print_string ppf \"printed\";; #install_printer pp",
        "(1, true)",
        "value_repr",
        "(1, true)",
    ),
    ("#print_depth 2", "[[[[1]]]]", "value_repr", "[[[[1]]]]"),
    (
        "#warnings \"-a\"",
        "let f = function true -> 1",
        "warnings",
        "not exhaustive",
    ),
    ("#rectypes", "let rec f x = f", "error", "occurs inside"),
    ("#labels true", "(fun ~x -> x + 1) 2", "value_repr", "3"),
    (
        "Format.set_margin 20",
        "List.init 12 Fun.id",
        "value_repr",
        "[0; 1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11]",
    ),
    (
        "#cd \"/\";; Sys.chdir \"/\"",
        "Sys.getcwd () = \"/\"",
        "value_repr",
        "false",
    ),
];

#[test]
fn nothing_is_left() {
    each(|executable| {
        let mut client = Client::start(executable);
        for (change, show, key, wanted) in CHANGES {
            let reply = client.eval(change);
            assert!(reply["error"].is_null(), "{change}: {reply}");
            let (reply, is_error) = client.call("reset", json!({}));
            assert_eq!((&reply, is_error), (&json!({ "ok": true }), false));
            let said = client.eval(show)[key].to_string();
            assert!(said.contains(wanted), "{change}; {show}: {said}");
        }
        assert_eq!(client.call("env", json!({})).0["total"], 0);
        let mut random = || {
            client.call("reset", json!({}));
            client.eval("Random.bits ()")["value_repr"].clone()
        };
        assert_eq!(random(), random());
    });
}

#[test]
fn libraries_are_dropped_and_can_be_loaded_again() {
    let load = "#directory \"+unix\";; #load \"unix.cma\"";
    if toolchain("version").starts_with('4') {
        return;
    }
    let mut client = Client::start(crate::support::BYTECODE);
    for _ in 0..2 {
        assert!(client.eval("Unix.getpid ()")["error"].is_string());
        client.eval(load);
        assert_eq!(client.eval("Unix.getpid () > 1")["value_repr"], "true");
        client.call("reset", json!({}));
    }
}

#[test]
fn old_values_become_garbage() {
    each(|executable| {
        let mut client = Client::start(executable);
        let before = client.resident();
        client.eval("let big = Bytes.make 200_000_000 'x' let size () = Bytes.length big");
        client.eval("module M = struct let inside = [ big ] let f () = List.length inside end");
        client.eval("class c = object method big = big end");
        client.eval("let failed = Bytes.make 100_000_000 'x' let () = failwith \"no\"");
        assert_eq!(client.eval("size () + M.f ()")["value_repr"], "200000001");
        assert!(client.resident() > before + 190.0);
        client.call("reset", json!({}));
        let after = client.resident();
        assert!(after < 70.0, "{before} MB before, {after} MB after");
    });
}

#[test]
fn code_that_still_runs_keeps_what_it_refers_to() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let table = Hashtbl.create 3 let say s = Hashtbl.replace table s s; print_endline (Hashtbl.find table s)");
        client.eval(
            "let rec twice f = f (); if Random.int 2 < 3 then f () and last () = say \"last\"",
        );
        client.eval("let () = Gc.finalise (fun _ -> twice (fun () -> say \"finalised\")) (ref 0)");
        client.eval("let () = at_exit (fun () -> twice last)");
        let (reply, _) = client.call("reset", json!({}));
        let later = client.eval("Gc.full_major ()")["stdout"].clone();
        let said = format!(
            "{}{}",
            reply["stdout"].as_str().unwrap_or_default(),
            later.as_str().unwrap()
        );
        assert_eq!(said, "finalised\nfinalised\n", "{reply}");
        assert_eq!(
            client.eval("Stdlib.do_at_exit ()")["stdout"],
            "last\nlast\n"
        );
        assert_eq!(client.eval("1 + 1")["value_repr"], "2");
    });
}

/// Values of every shape, in one phrase and over several, that an old function reads.
const OLD: [&str; 5] = [
    "module M = struct let r = ref [String.make 3 'a'] let v = List.init 3 string_of_int \
     let h = Hashtbl.create 3 let f s = Hashtbl.replace h s (s ^ \"!\"); Hashtbl.find h s end",
    "let x = List.init 2 string_of_int;; let p = (x, ref \"q\")",
    "type r = { a : string list; b : string ref };; let r = { a = x; b = ref \"b\" };; \
     exception E of string list",
    "let o = object val mutable k = \"o\" method k = k <- k ^ \"o\"; k end;; \
     module N = struct let o = o module Deep = struct let deep = ref [\"deep\"] end end",
    "let out = Buffer.create 10 let later () = Buffer.clear out; let t = (x, r) in \
     Buffer.add_string out (String.concat \",\" (!M.r @ M.v @ fst p @ r.a @ fst t @ \
     [ !(snd p); !(r.b); M.f \"m\"; N.o#k; List.hd !N.Deep.deep; \
     (match E x with E q -> List.hd q | _ -> \"\") ])); Buffer.contents out",
];

#[test]
fn old_code_reads_its_own_values() {
    each(|executable| {
        let mut client = Client::start(executable);
        for source in OLD {
            let reply = client.eval(source);
            assert!(reply["error"].is_null(), "{reply}");
        }
        client.eval("let () = Printexc.register_printer (function Stack_overflow -> Some (later ()) | _ -> None)");
        let mut read = || client.eval("Printexc.to_string Stack_overflow")["value_repr"].clone();
        assert_eq!(read(), "\"aaa,0,1,2,0,1,0,1,0,1,q,b,m!,oo,deep,0\"");
        for object in ["ooo", "oooo"] {
            client.call("reset", json!({}));
            // What was given up is used for something else.
            client.eval("let junk = List.init 200_000 string_of_int;; Gc.compact ()");
            let mut read =
                || client.eval("Printexc.to_string Stack_overflow")["value_repr"].clone();
            assert_eq!(
                read(),
                format!("\"aaa,0,1,2,0,1,0,1,0,1,q,b,m!,{object},deep,0\"")
            );
        }
    });
}

#[test]
fn a_new_log_begins_and_the_old_one_is_kept() {
    each(|executable| {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log.ml");
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_LOG", &log);
        });
        client.eval("let old = 1");
        client.call("reset", json!({}));
        client.eval("let new_one = 2");
        assert_eq!(
            fs::read_to_string(&log).expect("the log"),
            "let new_one = 2;;\n"
        );
        let aside = folder.path().join("log.ml.1");
        assert_eq!(
            fs::read_to_string(aside).expect("the old log"),
            "let old = 1;;\n"
        );
    });
}
