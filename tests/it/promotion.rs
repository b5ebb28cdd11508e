//! `compile_to_binary`: the session becomes a program that needs no topup.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{BYTECODE, Client, Executable, assert_timed_out, each, payload, toolchain};

/// A folder for a project; the program's own name is fixed.
struct Out(TempDir);

impl Out {
    fn new() -> Out {
        Out(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("made here/app")
    }

    fn compile(&self, client: &mut Client, entry: &str) -> (Value, bool) {
        let out = self.path();
        client.call(
            "compile_to_binary",
            json!({ "entry": entry, "out": out.to_str() }),
        )
    }

    /// What the program prints.
    fn run(&self) -> String {
        let mut program = Command::new(self.path().join("main.exe"));
        let output = program.env_clear().output().expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// Phrases, the last of which defines `main`, and what the program prints.
const SESSIONS: [(&str, &[&str], &str); 10] = [
    (
        "a value",
        &["let x = 20 + 1", "let main () = print_int (2 * x)"],
        "42",
    ),
    (
        "names that were defined anew",
        &[
            "type t = A;; let a = A",
            "type t = B of int;; let b = B 2",
            "module M = struct let v = 1 end;; let f () = M.v",
            "module M = struct let v = f () + 10 end",
            "module type S = sig val x : int end;; module type S = sig val y : int end",
            "class c = object method m = 1 end;; let old = new c;; class c = object method m = 20 end",
            "let x = 1;; let g () = x;; let x = 100",
            "let main () = match a, b with A, B n -> print_int (n + M.v + old#m + (new c)#m + g () + x)",
        ],
        "135",
    ),
    (
        "exceptions and extensions that were defined anew",
        &[
            "exception E;; let old = E;; exception E of int;; type t = ..;; type t += X;; let x = X;; type t += X of int",
            "module Stdlib = struct end;; let ignore = 1",
            "let main () = match old, x with E _, _ -> print_int 1 | _, X _ -> print_int 2 | _ -> print_int 3",
        ],
        "3",
    ),
    (
        "opens and includes",
        &[
            "let rev = 1;; open List;; let twice l = rev l @ rev l",
            "let length = 5;; include String;; let n = length \"abc\"",
            "let main () = print_int (n + List.length (twice [ 1 ]))",
        ],
        "5",
    ),
    (
        "effects, in their order",
        &[
            "print_string \"a\";; let r = ref 0;; incr r; print_string \"b\"",
            "at_exit (fun () -> print_string \"d\")",
            "let main () = Printf.printf \"c%d\" !r; \"ignored\"",
        ],
        "abc1d",
    ),
    (
        "what only a toplevel has",
        &[
            "#show list;; #print_depth 3;; #warnings \"+a\"",
            "oops;; failwith \"no\"",
            "1 + 1;; (fun x -> x);; let unused = ref []",
            "let main () = print_string \"ran\"",
        ],
        "ran",
    ),
    (
        "several items and lines in a phrase",
        &[
            "let f x =\n  x + 1 let y = f 1 type t = { y : int }\nlet z = { y } (* c *);; \"a;;b\"",
            "let main () = print_int z.y",
        ],
        "2",
    ),
    (
        "types that are recursive",
        &[
            "#rectypes;; type t = t -> int",
            "let rec f x = f",
            "let main () = ignore (f 1); print_string \"r\"",
        ],
        "r",
    ),
    (
        "text",
        &[
            "let é = \"h\\\\é\\n\" (* ü *) let s = {|a \" b|}",
            "let main () = print_string (é ^ s)",
        ],
        "h\\é\na \" b",
    ),
    (
        "first-class modules",
        &[
            "module type T = sig type t val v : t val s : t -> string end",
            "let m = (module struct type t = int let v = 3 let s = string_of_int end : T)",
            "module N = (val m)",
            "let main () = print_string N.(s v)",
        ],
        "3",
    ),
];

#[test]
fn the_program_does_what_the_session_did() {
    each(|executable| {
        for (name, phrases, printed) in SESSIONS {
            let out = Out::new();
            let mut client = Client::start(executable);
            for phrase in phrases {
                client.eval(phrase);
            }
            let (reply, is_error) = out.compile(&mut client, "main");
            assert!(!is_error && reply["ok"] == true, "{name}: {reply}");
            assert_eq!(
                reply["binary_path"],
                out.path().join("main.exe").to_str().unwrap()
            );
            drop(client);
            assert_eq!(out.run(), printed, "{name}");
            if executable.variant == "native" {
                // The program is the same; one is enough to see that the log was.
                break;
            }
        }
    });
}

#[test]
fn a_folder_is_ours_or_empty() {
    let mut client = Client::start(BYTECODE);
    client.eval("let main () = print_string \"one\"");
    let out = Out::new();
    assert_eq!(out.compile(&mut client, "main").0["ok"], true);
    assert!(out.path().join(".topup-promote").exists() && out.path().join("dune-project").exists());
    client.eval("let main () = print_string \"two\"");
    assert_eq!(out.compile(&mut client, "main").0["ok"], true);
    assert_eq!(out.run(), "two");

    // The marker is what counts.
    fs::remove_file(out.path().join(".topup-promote")).unwrap();
    let (reply, is_error) = out.compile(&mut client, "main");
    assert!(is_error && reply["phase"] == "arguments", "{reply}");
    assert!(
        reply["error"].as_str().unwrap().contains("not empty"),
        "{reply}"
    );
    assert_eq!(out.run(), "two");
    for bad in ["relative/app", "", "/dev/null/app", "/proc/app"] {
        let (reply, is_error) =
            client.call("compile_to_binary", json!({ "entry": "main", "out": bad }));
        assert!(is_error && reply["phase"] == "arguments", "{reply}");
        assert!(reply["error"].as_str().unwrap().contains("out"), "{reply}");
    }
}

#[test]
fn the_entry_is_checked_first() {
    each(|executable| {
        let out = Out::new();
        let mut client = Client::start(executable);
        client.eval("let number = 1;; let f x = x + 1;; let any x = ();; module M = struct let main () = print_string \"m\" end");
        for (entry, problem) in [
            ("nothing", "not in scope"),
            ("number", "has type int;"),
            ("f", "has type int -> int; it must have type unit -> _"),
            ("M.nothing", "not in scope"),
            ("print_int 3; main", "is not the name of a value"),
            ("", "is not the name of a value"),
            ("M", "is not the name of a value"),
            ("(", "is not the name of a value"),
        ] {
            let (reply, is_error) = out.compile(&mut client, entry);
            assert!(is_error && reply["phase"] == "arguments", "{reply}");
            assert!(
                reply["error"].as_str().unwrap().contains(problem),
                "{entry}: {reply}"
            );
        }
        assert!(!out.path().exists(), "nothing is made for a bad entry");
        assert_eq!(client.eval("any 1;; any true")["error"], Value::Null);
        assert_eq!(out.compile(&mut client, "any").0["ok"], true);
        assert_eq!(out.compile(&mut client, "M.main").0["ok"], true);
        assert_eq!(out.run(), "m");
    });
}

/// An archive that no package holds.
fn archive(folder: &Path, executable: Executable) -> String {
    fs::write(folder.join("aside.ml"), "let number = 1\n").unwrap();
    let (compiler, flags, name) = match executable.variant {
        "native" => ("ocamlopt", "-shared", "aside.cmxs"),
        _ => ("ocamlc", "-a", "aside.cma"),
    };
    let status = Command::new(Path::new(&toolchain("bin")).join(compiler))
        .args([flags, "-o", name, "aside.ml"])
        .current_dir(folder)
        .status();
    assert!(status.expect("the compiler runs").success());
    format!("#directory \"{}\";; #load \"{name}\"", folder.display())
}

#[test]
fn a_failed_build_names_the_phrase() {
    each(|executable| {
        let out = Out::new();
        let folder = tempfile::tempdir().unwrap();
        let mut client = Client::start(executable);
        client.eval("let a = 1");
        client.eval(&archive(folder.path(), executable));
        client.eval("let b = 2;; let number () =\n  Aside.number");
        client.eval("let main () = print_int (number () + a + b)");
        let (reply, is_error) = out.compile(&mut client, "main");
        assert!(
            is_error && reply["ok"] == false && reply["phase"] == "build",
            "{reply}"
        );
        assert!(
            reply["build_log"]
                .as_str()
                .unwrap()
                .contains("Unbound module"),
            "{reply}"
        );
        // `#directory` is a phrase of the log, too.
        let source = "let number () =\n  Aside.number;;";
        assert_eq!(
            reply["phrase"],
            json!({ "number": 4, "source": source }),
            "{reply}"
        );
        assert_eq!(reply["binary_path"], Value::Null);
        let arguments =
            json!({ "entry": "main", "out": out.path().to_str(), "libraries": ["no-such \"lib"] });
        let (reply, is_error) = client.call("compile_to_binary", arguments);
        assert!(
            is_error && reply["build_log"].as_str().unwrap().contains("no-such"),
            "{reply}"
        );
    });
}

#[test]
fn libraries_are_linked() {
    each(|executable| {
        let out = Out::new();
        let mut client = Client::start(executable);
        let load = if executable.variant == "native" {
            "str.cmxs"
        } else {
            "str.cma"
        };
        client.eval(&format!("#directory \"+str\";; #load \"{load}\""));
        client.eval(
            "let main () = print_string (Str.global_replace (Str.regexp \"a+\") \"b\" \"caat\")",
        );
        let arguments =
            json!({ "entry": "main", "out": out.path().to_str(), "libraries": ["str"] });
        let (reply, _) = client.call("compile_to_binary", arguments);
        assert_eq!(reply["ok"], true, "{reply}");
        assert_eq!(out.run(), "cbt");
    });
}

/// A `dune` that starts a child and waits for it.
fn slow_dune(folder: &Path) -> String {
    let script = folder.join("dune");
    let pid = folder.join("pid");
    let text = format!(
        "#!/bin/sh\ntrap '' TERM\necho building\nsleep 600 & echo $! >{0}.new; mv {0}.new {0}\nwait\nwait\n",
        pid.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

fn child_of(folder: &Path) -> u32 {
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(text) = fs::read_to_string(folder.join("pid")) {
            return text.trim().parse().expect("a number");
        }
        assert!(Instant::now() < limit, "the build does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Gone, or waiting for somebody to ask for its status.
fn has_ended(pid: u32) -> bool {
    let limit = Instant::now() + Duration::from_secs(30);
    while Instant::now() < limit {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) if !stat.contains(") Z ") => std::thread::sleep(Duration::from_millis(5)),
            _ => return true,
        }
    }
    false
}

#[test]
fn a_build_is_stopped_with_all_that_it_started() {
    for stop in ["timeout", "cancel", "end"] {
        let out = Out::new();
        let folder = tempfile::tempdir().unwrap();
        let path = slow_dune(folder.path());
        let mut client = Client::start_with(BYTECODE, |command| {
            command.env("PATH", path);
        });
        client.eval("let main () = ()");
        let mut arguments = json!({ "entry": "main", "out": out.path().to_str() });
        if stop == "timeout" {
            arguments["timeout"] = json!(0.3);
        }
        let id = client.begin_call("compile_to_binary", arguments);
        let child = child_of(folder.path());
        match stop {
            "end" => {
                client.signal("TERM");
                client.wait();
            }
            _ => {
                if stop == "cancel" {
                    client.begin_call("cancel", json!({}));
                    assert_eq!(payload(&client.receive()).0["cancelled"], true);
                }
                let reply = client.receive();
                assert_eq!(reply["id"], id);
                let (reply, is_error) = payload(&reply);
                assert!(is_error && reply["ok"] == false, "{reply}");
                assert_timed_out(&reply);
                assert_eq!(client.eval("1 + 1")["value_repr"], "2");
            }
        }
        assert!(has_ended(child), "{stop}: the build's child goes on");
    }
}

#[test]
fn progress_is_told_to_those_who_ask() {
    let out = Out::new();
    let folder = tempfile::tempdir().unwrap();
    let path = slow_dune(folder.path());
    let mut client = Client::start_with(BYTECODE, |command| {
        command.env("PATH", path);
    });
    // The first revision whose progress has messages.
    client.request("initialize", json!({ "protocolVersion": "2025-03-26" }));
    client.receive();
    client.eval("let main () = ()");
    client.request(
        "tools/call",
        json!({
            "name": "compile_to_binary",
            "arguments": { "entry": "main", "out": out.path().to_str(), "timeout": 3 },
            "_meta": { "progressToken": "t" },
        }),
    );
    let mut last = 0.0;
    let mut told = 0;
    let reply = loop {
        let message = client.receive();
        if message["method"] != "notifications/progress" {
            break message;
        }
        let params = &message["params"];
        let progress = params["progress"].as_f64().expect("a number");
        assert!(
            params["progressToken"] == "t" && progress > last && progress >= 1.0,
            "{message}"
        );
        assert!(
            params["message"].as_str().unwrap().ends_with("s: building"),
            "{message}"
        );
        last = progress;
        told += 1;
    };
    assert!((2..=6).contains(&told), "told {told} times");
    assert_timed_out(&payload(&reply).0);
}

#[test]
fn what_it_needs_is_named() {
    let out = Out::new();
    let empty = tempfile::tempdir().unwrap();
    let mut client = Client::start_with(BYTECODE, |command| {
        command.env("PATH", empty.path());
    });
    client.eval("let main () = ()");
    let (reply, is_error) = out.compile(&mut client, "main");
    assert!(is_error && reply["phase"] == "build", "{reply}");
    assert!(
        reply["error"].as_str().unwrap().contains("no dune on PATH"),
        "{reply}"
    );
    let mut client = Client::start_with(BYTECODE, |command| {
        command.env("TOPUP_LOG", "off");
    });
    client.eval("let main () = ()");
    let (reply, is_error) = out.compile(&mut client, "main");
    assert!(is_error && reply["phase"] == "log", "{reply}");
}
