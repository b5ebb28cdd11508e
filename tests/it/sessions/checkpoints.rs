//! Checkpoints of named sessions: a file, and a process to go back to.

use std::fs;

use serde_json::json;

use super::{Server, children, eventually, notice};
use crate::support::{BYTECODE, each};

#[test]
fn a_restore_goes_back_to_the_process() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.session("b", json!({}));
        server.eval_in("a", "let r = ref 1");
        server.eval_in("a", "let f = let n = ref 0 in fun () -> incr n; !n");
        server.eval_in(
            "a",
            "r := 5; ignore (f ()); ignore (f ()); failwith \"so that it is in no log\"",
        );
        let (reply, is_error) = server.call("checkpoint", json!({ "label": "cp", "session": "a" }));
        assert!(!is_error && reply["phrases"] == 2, "{reply}");
        server.eval_in("a", "let r = \"wrecked\";; let f () = failwith \"wrecked\"");
        // Twice, and in another session, too.
        for session in ["a", "a", "b"] {
            let (reply, is_error) =
                server.call("restore", json!({ "label": "cp", "session": session }));
            assert!(!is_error, "{reply}");
            assert!(
                notice(&reply).starts_with("went back to the process"),
                "{reply}"
            );
            assert!(notice(&reply).contains("2 phrases"), "{reply}");
            assert_eq!(server.value_in(session, "!r, f ()"), "(5, 3)");
            let (reply, _) = server.call(
                "checkpoint",
                json!({ "label": "after", "session": session }),
            );
            assert_eq!(reply["phrases"], 3, "the log goes on from there");
        }
        let file = server.home.path().join(".topup/checkpoints/after.ml");
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(
            text,
            "let r = ref 1;;\nlet f = let n = ref 0 in fun () -> incr n; !n;;\n!r, f ();;\n"
        );
    });
}

#[test]
fn a_checkpoint_file_that_has_changed_is_run() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.eval_in("a", "let x = 1");
        server.call("checkpoint", json!({ "label": "cp", "session": "a" }));
        let file = server.home.path().join(".topup/checkpoints/cp.ml");
        fs::write(&file, "let x = 2;;\n").unwrap();
        let (reply, _) = server.call("restore", json!({ "label": "cp", "session": "a" }));
        assert!(notice(&reply).starts_with("replayed 1 phrase"), "{reply}");
        assert_eq!(server.value_in("a", "x"), "2");
        // So is one of the local session, anywhere.
        server.client.eval("let y = 3");
        server.call("checkpoint", json!({ "label": "local" }));
        let (reply, _) = server.call("restore", json!({ "label": "local", "session": "a" }));
        assert!(notice(&reply).starts_with("replayed 1 phrase"), "{reply}");
        assert_eq!(server.value_in("a", "y"), "3");
        // And one of a named session in the local one.
        server.call("checkpoint", json!({ "label": "named", "session": "a" }));
        let (reply, _) = server.call("restore", json!({ "label": "named" }));
        assert!(notice(&reply).starts_with("replayed 2 phrases"), "{reply}");
    });
}

#[test]
fn eight_processes_are_kept() {
    let mut server = Server::start(BYTECODE);
    server.session("a", json!({}));
    for number in 0..10 {
        server.eval_in("a", &format!("let x = {number}"));
        server.call(
            "checkpoint",
            json!({ "label": format!("cp{number}"), "session": "a" }),
        );
    }
    let pid = server.client.child.id();
    eventually("the oldest are let go", || children(pid).len() == 1 + 8);
    for (number, way) in [
        (9, "went back"),
        (2, "went back"),
        (1, "replayed"),
        (0, "replayed"),
    ] {
        let label = json!({ "label": format!("cp{number}"), "session": "a" });
        let (reply, _) = server.call("restore", label);
        assert!(notice(&reply).starts_with(way), "cp{number}: {reply}");
        assert_eq!(server.value_in("a", "x"), number.to_string());
    }
}

#[test]
fn loaded_code_comes_back_with_the_process() {
    let mut server = Server::start(BYTECODE);
    crate::support::library(server.home.path(), "brought", "let fetched = 11");
    server.session("a", json!({}));
    let path = server.home.path().join("brought.cma");
    let (reply, is_error) = server.call("load", json!({ "path": path, "session": "a" }));
    assert!(!is_error, "{reply}");
    server.eval_in("a", "let x = Brought.fetched");
    let (reply, _) = server.call("checkpoint", json!({ "label": "cp", "session": "a" }));
    assert!(notice(&reply).contains("not in the file"), "{reply}");
    server.call("reset", json!({ "session": "a" }));
    assert!(server.eval_in("a", "Brought.fetched")["error"].is_string());
    server.call("restore", json!({ "label": "cp", "session": "a" }));
    assert_eq!(server.value_in("a", "x + Brought.fetched"), "22");
}
