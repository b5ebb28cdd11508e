//! Dune projects: `load_project`, and `#use_output "dune top"`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{BYTECODE, Client, Executable, assert_timed_out, each, payload};

/// A project of two libraries: `geo` (modules `Area`, `Circle`) needs `inner` and `str`.
struct Project {
    folder: tempfile::TempDir,
    client: Client,
}

impl Project {
    fn start(executable: Executable) -> Project {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::start_with(executable, |command| {
            command.current_dir(folder.path());
        });
        let project = Project { folder, client };
        project.write("dune-project", "(lang dune 2.9)");
        project.write("inner/dune", "(library (name inner))");
        project.write("src/dune", "(library (name geo) (libraries str inner))");
        project.write("src/circle.ml", "let x = Str.quote \".\"");
        project.write(
            "src/area.ml",
            "let area x = Inner.double x let make side = { Inner.side }",
        );
        project.inner("{ side : int }", 2);
        project
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(path, text).expect("written");
    }

    fn inner(&self, record: &str, factor: u32) {
        let text = format!("type t = {record} let double x = Sys.opaque_identity {factor} * x");
        self.write("inner/inner.ml", &text);
    }

    fn load(&mut self) -> (Value, bool) {
        self.client
            .call("load_project", json!({ "path": self.folder.path() }))
    }

    fn loads(&mut self) -> Value {
        let (reply, is_error) = self.load();
        assert!(!is_error, "{reply}");
        assert_eq!(reply["ok"], true);
        reply
    }

    fn value(&mut self, source: &str) -> String {
        let reply = self.client.eval(source);
        assert!(reply["error"].is_null(), "{source}: {reply}");
        reply["value_repr"].as_str().unwrap_or_default().to_string()
    }

    fn unbound(&mut self, name: &str) {
        let reply = self.client.eval(name);
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(error.contains("Unbound"), "{reply}");
    }
}

const ALL: [&str; 5] = ["Geo", "Geo__Area", "Geo__Circle", "Inner", "Str"];

fn names(reply: &Value, field: &str) -> Vec<String> {
    let list = reply[field].as_array().expect("a list");
    let mut names: Vec<String> = list
        .iter()
        .map(|name| name.as_str().unwrap().into())
        .collect();
    names.sort();
    names
}

#[test]
fn a_projects_libraries_are_there() {
    each(|executable| {
        let mut project = Project::start(executable);
        // The default folder is the server's own.
        let (reply, is_error) = project.client.call("load_project", json!({}));
        assert!(!is_error, "{reply}");
        assert_eq!(names(&reply, "loaded"), ALL);
        assert_eq!(
            project.value("Geo.Area.area 3, (Geo.Area.make 1).side, Geo.Circle.x"),
            "(6, 1, \"\\\\.\")"
        );
        let reply = project.loads();
        assert_eq!(
            (names(&reply, "loaded"), names(&reply, "unchanged")),
            (vec![], ALL.map(String::from).to_vec())
        );
    });
}

#[test]
fn new_code_replaces_the_old_and_old_bindings_are_named() {
    let mut project = Project::start(BYTECODE);
    project.loads();
    project.value(
        "let f x = Geo.Area.area x;; let g x = f x + 1;; let n = 3;; open Geo;; let c = Circle.x",
    );
    project.inner("{ side : int }", 4);
    let reply = project.loads();
    assert_eq!(names(&reply, "loaded"), ALL[..4]);
    assert_eq!(names(&reply, "unchanged"), ["Str"]);
    assert_eq!(names(&reply, "stale"), ["c", "f", "g"]);
    assert_eq!(names(&reply, "dropped"), [""; 0]);
    assert_eq!(project.value("f 3, g 3, Area.area 3"), "(6, 7, 12)");
    // Said until they are evaluated again.
    project.value("let f x = Geo.Area.area x");
    assert_eq!(names(&project.loads(), "stale"), ["c", "g"]);
    assert_eq!(project.value("f 3"), "12");
}

#[test]
fn bindings_of_types_that_changed_are_gone() {
    let mut project = Project::start(BYTECODE);
    project.loads();
    project.value(
        "let s = Geo.Area.make 4;; let n = \"older\";; let n = Some s;; let kept = [1];; \
         module M = struct type u = Inner.t let y = 1 end;; type v = V of M.u;; \
         let pp ppf (_ : Inner.t) = Format.pp_print_string ppf \"printed\";; #install_printer pp;; \
         let polymorphic x = x, s;; open Inner;; exception E of t;; let side x = x.side + 1;; \
         let shadow = s;; let shadow = 7",
    );
    project.inner("{ name : string; side : int }", 2);
    project.write(
        "src/area.ml",
        "let area x = Inner.double x let make side = { Inner.side; name = \"n\" }",
    );
    let reply = project.loads();
    let gone = [
        "E",
        "M",
        "n",
        "polymorphic",
        "pp",
        "s",
        "shadow",
        "side",
        "v",
    ];
    assert_eq!(names(&reply, "dropped"), gone);
    for name in ["s", "n", "M.y", "polymorphic", "side"] {
        project.unbound(name);
    }
    assert_eq!(project.value("kept, shadow"), "([1], 7)");
    assert_eq!(project.value("Geo.Area.make 4"), "{name = \"n\"; side = 4}");
    assert_eq!(
        project.value("let s = Geo.Area.make 5 in s.side, s.name"),
        "(5, \"n\")"
    );
}

#[test]
fn an_initialiser_that_raises_leaves_a_sound_session() {
    let mut project = Project::start(BYTECODE);
    project.loads();
    project.value("let s = Geo.Area.make 4;; let n = 3");
    project.write(
        "inner/inner.ml",
        "type t = { side : float } let double x = x let () = failwith \"boom\"",
    );
    let (reply, is_error) = project.load();
    assert!(
        is_error && reply["error"].as_str().unwrap().contains("boom"),
        "{reply}"
    );
    assert_eq!(names(&reply, "dropped"), ["s"]);
    assert_eq!(project.value("n"), "3");
    project.unbound("s");
    let reply = project.client.eval("Inner.double 1");
    assert!(
        reply["error"].as_str().unwrap().contains("Inner"),
        "{reply}"
    );
    project.write(
        "inner/inner.ml",
        "type t = { side : float } let double x = x",
    );
    project.loads();
    assert_eq!(project.value("Geo.Area.make 4."), "{Inner.side = 4.}");
}

#[test]
fn machine_code_that_changed_is_refused() {
    each(|executable| {
        if executable.variant != "native" {
            return;
        }
        let mut project = Project::start(executable);
        project.loads();
        project.value("let f x = Geo.Area.area x");
        project.inner("{ side : int }", 4);
        let (reply, is_error) = project.load();
        assert!(is_error, "{reply}");
        let error = reply["error"].as_str().unwrap();
        assert!(
            error.contains("Inner") && error.contains("start the server again"),
            "{error}"
        );
        assert_eq!(project.value("f 3, Geo.Area.area 3"), "(6, 6)");
    });
}

#[test]
fn what_does_not_build_is_dunes_word() {
    each(|executable| {
        let mut project = Project::start(executable);
        project.write(
            "src/area.ml",
            "let area x = Inner.double true let make side = { Inner.side }",
        );
        let (reply, is_error) = project.load();
        assert!(is_error, "{reply}");
        assert_eq!(reply["phase"], "build");
        let error = reply["error"].as_str().unwrap();
        assert!(
            error.contains("src/area.ml\", line 1, characters 26-30"),
            "{error}"
        );
        assert_eq!(project.value("1 + 1"), "2");
        let nowhere = tempfile::tempdir().unwrap();
        for (path, text) in [
            (nowhere.path(), "no dune-project"),
            (Path::new("/nonexistent"), "/nonexistent"),
        ] {
            let (reply, _) = project.client.call("load_project", json!({ "path": path }));
            assert_eq!(reply["phase"], "arguments");
            assert!(reply["error"].as_str().unwrap().contains(text), "{reply}");
        }
    });
}

#[test]
fn a_build_that_does_not_end_can_be_cancelled() {
    each(|executable| {
        let mut project = Project::start(executable);
        let rule = "(library (name inner))\n(rule (targets slow.ml) (action (with-stdout-to slow.ml (run sleep 50))))";
        project.write("inner/dune", rule);
        let id = project.client.begin_call("load_project", json!({}));
        std::thread::sleep(Duration::from_millis(700));
        let cancel = project.client.begin_call("cancel", json!({}));
        for _ in 0..2 {
            let reply = project.client.receive();
            if reply["id"] == id {
                let (reply, is_error) = payload(&reply);
                assert!(is_error);
                assert_timed_out(&reply);
            } else {
                assert_eq!(reply["id"], cancel);
            }
        }
        assert_eq!(project.value("1 + 1"), "2");
    });
}

#[test]
fn what_dune_top_says_can_be_used() {
    let mut project = Project::start(BYTECODE);
    project.value("#use_output \"dune top\"");
    assert_eq!(project.value("Geo.Area.area 3"), "6");
}
