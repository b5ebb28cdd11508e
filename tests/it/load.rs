//! The tool `load`: compiled code into a session, and what is wrong with files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Client, Executable, assert_timed_out, compile, each, library, payload, toolchain,
};

struct Session {
    client: Client,
    folder: tempfile::TempDir,
    executable: Executable,
}

impl Session {
    fn start(executable: Executable) -> Session {
        Session {
            client: Client::start(executable),
            folder: tempfile::tempdir().expect("a folder"),
            executable,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A folder of its own, for another version of a library.
    fn subfolder(&self, name: &str) -> PathBuf {
        let folder = self.path().join(name);
        fs::create_dir(&folder).expect("created");
        folder
    }

    fn load(&mut self, path: &Path) -> (Value, bool) {
        self.client.call("load", json!({ "path": path }))
    }

    /// Loads `name.cma` or `name.cmxs` of a folder.
    fn archive(&mut self, folder: &Path, name: &str) -> (Value, bool) {
        let path = folder.join(self.executable.archive(name));
        self.load(&path)
    }

    fn fails(&mut self, path: &Path, texts: &[&str]) {
        let (reply, is_error) = self.load(path);
        assert!(is_error, "{reply}");
        assert_eq!(reply["phase"], "arguments", "{reply}");
        let error = reply["error"].as_str().expect("an error");
        for text in texts {
            assert!(error.contains(text), "no {text:?} in {error:?}");
        }
        assert_eq!(self.client.eval("1 + 1")["value_repr"], "2");
    }

    fn value(&mut self, source: &str) -> String {
        let reply = self.client.eval(source);
        assert!(reply["error"].is_null(), "{reply}");
        reply["value_repr"].as_str().unwrap_or_default().to_string()
    }
}

#[test]
fn a_loaded_library_is_there() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        let source = "let () = print_string \"hello\"; prerr_string \"there\" let area x = x * x type t = T of int";
        library(&folder, "geo", source);
        let (reply, is_error) = session.archive(&folder, "geo");
        let expected =
            json!({ "ok": true, "modules": ["Geo"], "stdout": "hello", "stderr": "there" });
        assert_eq!((reply, is_error), (expected, false));
        assert_eq!(session.value("Geo.area 4, Geo.T 1"), "(16, Geo.T 1)");
        // It is the machine's state, not the session's source.
        let (reply, _) = session
            .client
            .call("checkpoint", json!({ "label": "load-test" }));
        assert_eq!(reply["phrases"], 1, "{reply}");
    });
}

#[test]
fn what_is_loaded_again_is_run_again_if_it_can_be() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        library(
            &folder,
            "again",
            "let () = print_string \"run\" let version = 1",
        );
        assert_eq!(session.archive(&folder, "again").0["stdout"], "run");
        let (reply, is_error) = session.archive(&folder, "again");
        assert!(!is_error, "{reply}");
        assert_eq!(reply["modules"], json!(["Again"]));
        assert!(!session.client.call("reset", json!({})).1);
        let gone = session.client.eval("Again.version");
        let error = gone["error"].as_str().unwrap_or_default();
        assert!(error.contains("Unbound module"), "{gone}");
        assert!(!session.archive(&folder, "again").1);
        assert_eq!(session.value("Again.version"), "1");
        library(
            &folder,
            "again",
            "let () = print_string \"run\" let version = 2",
        );
        if executable.variant == "native" {
            let path = folder.join("again.cmxs");
            session.fails(
                &path,
                &[
                    "the unit Again",
                    "another version",
                    "start the server again",
                ],
            );
            assert_eq!(session.value("Again.version"), "1");
        } else {
            assert!(!session.archive(&folder, "again").1);
            assert_eq!(session.value("Again.version"), "2");
        }
    });
}

#[test]
fn files_that_are_no_libraries_are_told_apart() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        library(&folder, "kinds", "let x = 1");
        fs::write(folder.join("text.cma"), "hello").unwrap();
        let (right, wrong, holder) = match executable.variant {
            "native" => ("kinds.cmxs", "kinds.cma", "bytecode, for topup;"),
            _ => ("kinds.cma", "kinds.cmxs", "machine code, for topup-opt"),
        };
        fs::write(folder.join("kinds.cmxs.txt"), "").unwrap();
        if !cfg!(native_toplevel) {
            fs::write(folder.join("kinds.cmxs"), "\x7fELF").unwrap();
        }
        let there = format!("load {}, which is there", folder.join(right).display());
        session.fails(Path::new("kinds.cma"), &["must be absolute", "kinds.cma"]);
        session.fails(&folder.join("none.cma"), &["no file", "holds", right]);
        session.fails(
            Path::new("/no/such/x.cma"),
            &["there is no folder /no/such"],
        );
        session.fails(&folder, &["is a folder", right]);
        session.fails(&folder.join(wrong), &[holder, &there]);
        session.fails(&folder.join("kinds.cmi"), &["is an interface", &there]);
        session.fails(&folder.join("kinds.ml"), &["is source", "#use"]);
        session.fails(&folder.join("text.cma"), &["no compiled OCaml code"]);
        if cfg!(native_toplevel) {
            session.fails(&folder.join("kinds.a"), &["C or assembler", &there]);
        }
        fs::remove_file(folder.join(right)).unwrap();
        session.fails(&folder.join(wrong), &[right, "which is not there"]);
    });
}

#[test]
fn another_compilers_file_is_refused_by_name() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        library(&folder, "old", "let x = 1");
        let path = folder.join(executable.archive("old"));
        let bytes = fs::read(&path).unwrap();
        let at = bytes
            .windows(9)
            .position(|window| window == b"Caml1999D" || window == b"Caml1999A")
            .expect("a magic number");
        let mut other = bytes.clone();
        other[at + 9..at + 12].copy_from_slice(b"029");
        fs::write(&path, other).unwrap();
        session.fails(&path, &["compiled by OCaml 4.12", &toolchain("version")]);
        // A file that ends too soon.
        fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();
        session.fails(&path, &[path.to_str().unwrap()]);
        fs::write(&path, &bytes).unwrap();
        assert!(!session.load(&path).1);
        assert_eq!(session.value("Old.x"), "1");
    });
}

#[test]
fn libraries_that_do_not_fit_are_refused_and_those_that_do_are_welcome() {
    each(|executable| {
        let mut session = Session::start(executable);
        let (old, new) = (session.subfolder("old"), session.subfolder("new"));
        library(&old, "base", "let x = 1");
        // Not a constant, which native phrases would take from the .cmx.
        library(&old, "user", "let twice = Sys.opaque_identity 2 * Base.x");
        library(&new, "base", "let x = \"text\"");
        library(&new, "user", "let twice = Base.x ^ Base.x");
        let user = executable.archive("user");
        session.fails(&new.join(&user), &["needs what is not loaded: Base"]);
        assert!(!session.archive(&old, "base").1);
        session.fails(
            &new.join(&user),
            &["different interfaces of Base", "old/base"],
        );
        let unbound = session.client.eval("User.twice");
        assert!(unbound["error"].is_string(), "{unbound}");
        assert!(!session.archive(&old, "user").1);
        assert_eq!(session.value("User.twice + Base.x"), "3");
    });
}

#[test]
fn an_interface_of_the_session_is_defended() {
    each(|executable| {
        let mut session = Session::start(executable);
        let (old, new) = (session.subfolder("old"), session.subfolder("new"));
        library(
            &old,
            "figure",
            "type t = { side : int } let make side = { side }",
        );
        library(
            &new,
            "figure",
            "type t = { name : string } let make name = { name }",
        );
        assert!(!session.archive(&old, "figure").1);
        session.value("let figure = Figure.make 3");
        let path = new.join(executable.archive("figure"));
        session.fails(&path, &["Figure"]);
        assert_eq!(session.value("figure.Figure.side"), "3");
    });
}

#[test]
fn an_initialiser_that_raises_leaves_nothing() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        let source = "let keep = ref [0] let () = print_string \"began\"; if Sys.getenv_opt \"HOME\" <> None then failwith \"boom\"";
        library(&folder, "bad", source);
        session.value("let before = [\"a\"; \"b\"]");
        let (reply, is_error) = session.archive(&folder, "bad");
        assert!(is_error, "{reply}");
        let error = reply["error"].as_str().unwrap();
        assert!(error.contains("an initialiser raised"), "{error}");
        assert!(error.contains("Failure \"boom\""), "{error}");
        assert_eq!(reply["stdout"], "began");
        let unbound = session.client.eval("Bad.keep");
        assert!(unbound["error"].is_string(), "{unbound}");
        for n in 0..50 {
            session.value(&format!("let v{n} = \"text {n}\" ^ \"!\""));
            if executable.variant == "native" && n > 5 {
                break;
            }
        }
        assert_eq!(session.value("before, v0"), "([\"a\"; \"b\"], \"text 0!\")");
        library(&folder, "bad", "let keep = 1 let more = true");
        if executable.variant == "native" {
            let path = folder.join("bad.cmxs");
            session.fails(
                &path,
                &["initialiser failed before", "start the server again"],
            );
        } else {
            assert!(!session.archive(&folder, "bad").1);
            assert_eq!(session.value("Bad.keep, Bad.more"), "(1, true)");
        }
    });
}

#[test]
fn an_initialiser_that_does_not_end_can_be_cancelled() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        library(
            &folder,
            "slow",
            "let r = ref 0 let () = while true do r := !r + String.length (string_of_int !r) done",
        );
        let path = folder.join(executable.archive("slow"));
        let id = session.client.begin_call("load", json!({ "path": path }));
        std::thread::sleep(Duration::from_millis(300));
        let cancel = session.client.begin_call("cancel", json!({}));
        for _ in 0..2 {
            let reply = session.client.receive();
            if reply["id"] == id {
                let (reply, is_error) = payload(&reply);
                assert!(is_error);
                assert_timed_out(&reply);
            } else {
                assert_eq!(reply["id"], cancel);
                assert_eq!(payload(&reply).0["cancelled"], true);
            }
        }
        assert_eq!(session.value("List.length [1]"), "1");
    });
}

#[test]
fn stubs_that_are_missing_are_named() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        fs::write(folder.join("one.c"), "#include <caml/mlvalues.h>\nextern value not_there(value);\nvalue one(value x) { return not_there(x); }\n").unwrap();
        fs::write(
            folder.join("calls.ml"),
            "external one : int -> int = \"one\"\nlet call x = one x\n",
        )
        .unwrap();
        compile(&folder, "ocamlc", &["-c", "one.c", "calls.ml"]);
        let (name, wanted) = if executable.variant == "native" {
            compile(&folder, "ocamlopt", &["-c", "calls.ml"]);
            compile(
                &folder,
                "ocamlopt",
                &["-shared", "-o", "calls.cmxs", "calls.cmx", "one.o"],
            );
            ("calls.cmxs", "not_there")
        } else {
            compile(&folder, "ocamlc", &["-a", "-o", "calls.cma", "calls.cmo"]);
            session.fails(&folder.join("calls.cma"), &["needs the C function one"]);
            compile(
                &folder,
                "ocamlc",
                &[
                    "-a",
                    "-o",
                    "calls.cma",
                    "calls.cmo",
                    "-dllib",
                    "-lcalls_none",
                ],
            );
            ("calls.cma", "dllcalls_none")
        };
        session.fails(&folder.join(name), &[wanted]);
        fs::write(
            folder.join("one.c"),
            "#include <caml/mlvalues.h>\nvalue one(value x) { return x; }\n",
        )
        .unwrap();
        if executable.variant == "native" {
            compile(&folder, "ocamlopt", &["-c", "one.c"]);
            compile(
                &folder,
                "ocamlopt",
                &["-shared", "-o", "calls.cmxs", "calls.cmx", "one.o"],
            );
        } else {
            compile(&folder, "ocamlc", &["-c", "one.c"]);
            compile(
                &folder,
                "ocamlmklib",
                &["-o", "calls", "calls.cmo", "one.o"],
            );
        }
        assert!(!session.load(&folder.join(name)).1);
        assert_eq!(session.value("Calls.call 5"), "5");
    });
}

#[test]
fn units_come_in_files_of_their_own_and_in_packs() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        for (name, text) in [
            ("one", "let x = Sys.opaque_identity 1"),
            ("two", "let x = One.x + 1"),
            ("inside", "let x = 5"),
            ("user", "let y = Inside.x"),
        ] {
            fs::write(folder.join(format!("{name}.ml")), text).unwrap();
        }
        let (compiler, extension) = match executable.variant {
            "native" => ("ocamlopt", "cmx"),
            _ => ("ocamlc", "cmo"),
        };
        let run = |arguments: &str| {
            let arguments = arguments.replace(".cm", &format!(".{extension}"));
            compile(&folder, compiler, &arguments.split(' ').collect::<Vec<_>>());
        };
        run("-c one.ml two.ml");
        run("-for-pack Pack -c inside.ml user.ml");
        run("-pack -o pack.cm inside.cm user.cm");
        let two = folder.join(format!("two.{extension}"));
        session.fails(&two, &["needs what is not loaded: One"]);
        session.value(&format!(
            "#directory {folder:?};; #load_rec \"two.{extension}\""
        ));
        assert_eq!(session.value("Two.x"), "2");
        let (reply, is_error) = session.load(&folder.join(format!("pack.{extension}")));
        assert!(!is_error, "{reply}");
        assert_eq!(session.value("Pack.User.y"), "5");
    });
}

#[test]
fn an_interrupt_at_any_moment_leaves_a_sound_session() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        let source = "let () = for i = 1 to 100_000 do ignore (Sys.opaque_identity (string_of_int i)) done let x = 1";
        library(&folder, "moment", source);
        let archive = executable.archive("moment");
        session.value(&format!("#directory {folder:?};; let kept = [\"kept\"]"));
        for round in 0..20 {
            let limit = 0.001 * f64::from(round % 10 + 1);
            let reply = session
                .client
                .eval_within(&format!("#load {archive:?}"), limit);
            let reason = reply["error"].as_str().unwrap_or_default();
            let expected = reason.is_empty()
                || reason.starts_with("evaluation timed out")
                || reason.contains("initialiser failed before");
            assert!(expected, "{reply}");
            assert_eq!(session.value("kept"), "[\"kept\"]");
        }
        if executable.variant != "native" {
            session.value(&format!("#load {archive:?}"));
            assert_eq!(session.value("Moment.x"), "1");
        }
    });
}

#[test]
fn interfaces_are_found_where_dune_keeps_them() {
    each(|executable| {
        let mut session = Session::start(executable);
        let folder = session.path().to_path_buf();
        library(&folder, "geo", "let twice x = 2 * x\n");
        let objects = folder.join(".geo.objs/byte");
        fs::create_dir_all(&objects).expect("created");
        fs::rename(folder.join("geo.cmi"), objects.join("geo.cmi")).expect("moved");
        let (reply, is_error) = session.archive(&folder, "geo");
        assert!(!is_error, "{reply}");
        assert_eq!(session.value("Geo.twice 21"), "42");
        // What a checkpoint cannot bring back is named.
        let (reply, _) = session
            .client
            .call("checkpoint", json!({ "label": "by-hand" }));
        assert!(
            reply["notice"]
                .as_str()
                .is_some_and(|n| n.contains("geo.c")),
            "{reply}"
        );
    });
}
