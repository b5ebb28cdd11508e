//! Bringing named sessions up and down.

use std::fs;

use serde_json::json;

use super::{Server, children, eventually, exists, notice, server_at};
use crate::support::{BYTECODE, each};

#[test]
fn sessions_are_apart_and_keep_their_bindings() {
    each(|executable| {
        let mut server = Server::start(executable);
        let reply = server.session("a", json!({}));
        assert_eq!(reply["sessions"], json!(["a"]));
        assert_eq!(reply["started"], true);
        server.session("b", json!({}));
        server.client.eval("let x = 1");
        assert_eq!(server.value_in("a", "let x = 2"), "2");
        assert_eq!(server.value_in("b", "let x = 3"), "3");
        assert_eq!(server.client.eval("x")["value_repr"], "1");
        assert_eq!(server.value_in("local", "x"), "1");
        assert_eq!(server.value_in("a", "x"), "2");
        assert_eq!(server.value_in("b", "x"), "3");
        // A live one is left as it is.
        let reply = server.session("a", json!({ "pool": 3 }));
        assert_eq!(
            (&reply["started"], &reply["pool"]),
            (&json!(false), &json!(1))
        );
        assert!(notice(&reply).contains("was up already"), "{reply}");
        assert_eq!(server.value_in("a", "x"), "2");
    });
}

#[test]
fn a_prewarm_is_run_first() {
    each(|executable| {
        let mut server = Server::start(executable);
        let file = server.file("pre \"warm\".ml", "let base = 40\nlet add n = base + n;;\n");
        let reply = server.session("a", json!({ "prewarm": file }));
        assert_eq!(reply["prewarm"], file);
        assert_eq!(server.value_in("a", "add 2"), "42");
        // `~` is the user's home.
        server.session("b", json!({ "prewarm": "~/pre \"warm\".ml" }));
        assert_eq!(server.value_in("b", "add 3"), "43");
    });
}

#[test]
fn a_prewarm_that_fails_leaves_no_session() {
    each(|executable| {
        let mut server = Server::start(executable);
        let server_pid = server.client.child.id();
        let file = server.file("bad.ml", "let a = 1;;\nlet b = a + true;;\n");
        for (prewarm, says) in [
            (file.as_str(), "line 2, characters 12-16"),
            ("/nowhere/at/all.ml", "Cannot find file"),
            (
                &server.file("raises.ml", "print_string \"here\";;\nfailwith \"no\""),
                "Failure \"no\"",
            ),
            (&server.file("crashes.ml", super::SEGFAULT), "SIGSEGV"),
        ] {
            let arguments = json!({ "session": "a", "prewarm": prewarm, "pool": 3 });
            let (reply, is_error) = server.call("start_local_session", arguments);
            assert!(is_error);
            assert_eq!(reply["phase"], "prewarm", "{reply}");
            assert!(
                reply["error"].as_str().unwrap().contains(says),
                "{says}: {reply}"
            );
            let (reply, _) = server.call("list_sessions", json!({}));
            assert_eq!(reply["sessions"], json!([]), "nothing is kept of it");
            eventually("the process has ended", || children(server_pid).is_empty());
        }
    });
}

#[test]
fn starting_can_be_cancelled() {
    let mut server = Server::start(BYTECODE);
    let server_pid = server.client.child.id();
    let file = server.file("slow.ml", "while true do () done");
    let start = json!({ "session": "a", "prewarm": file });
    let id = server.client.begin_call("start_local_session", start);
    eventually("it runs", || !children(server_pid).is_empty());
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    server.client.send_line(&notification.to_string());
    eventually("the process has ended", || children(server_pid).is_empty());
    // The withdrawn call has no reply.
    assert_eq!(server.client.eval("1 + 1")["value_repr"], "2");
}

#[test]
fn restart_and_stop_end_what_runs() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.eval_in("a", "let x = 1");
        let first = server.pid_of("a");
        let running = json!({ "source": "while true do () done", "session": "a" });
        let id = server.client.begin_call("eval", running);
        let queued = json!({ "source": "1 + 1", "session": "a" });
        let queued = server.client.begin_call("eval", queued);
        let restart = server
            .client
            .begin_call("restart_local_session", json!({ "session": "a" }));
        let replies = [(); 3].map(|()| server.client.receive());
        let of = |id: u64| {
            let reply = replies
                .iter()
                .find(|reply| reply["id"] == id)
                .expect("a reply");
            crate::support::payload(reply)
        };
        let (reply, _) = of(id);
        assert_eq!(reply["phase"], "crash", "{reply}");
        let error = "the session was restarted by a call while this ran; the next call finds a \
                     fresh one, with its prewarm alone";
        assert_eq!(reply["error"], error, "{reply}");
        assert!(reply.get("signal").is_none(), "{reply}");
        assert_eq!(of(restart).0["started"], true, "{:?}", of(restart));
        let (reply, _) = of(queued);
        assert!(
            reply["error"].as_str().unwrap().contains("was restarted"),
            "{reply}"
        );
        assert!(!exists(first), "it was waited for");
        assert!(
            server.eval_in("a", "x")["error"].is_string(),
            "a fresh toplevel"
        );
        let second = server.pid_of("a");
        let flag = server.home.path().join("runs");
        let source = format!("close_out (open_out {flag:?}); while true do () done");
        let running = json!({ "source": source, "session": "a" });
        let id = server.client.begin_call("eval", running);
        eventually("it runs", || flag.exists());
        let stop = server
            .client
            .begin_call("stop_local_session", json!({ "session": "a" }));
        let replies = [(); 2].map(|()| server.client.receive());
        let of = |id: u64| {
            let reply = replies.iter().find(|reply| reply["id"] == id);
            crate::support::payload(reply.expect("a reply")).0
        };
        assert_eq!(of(stop)["stopped"], true);
        let error = "the session was stopped by a call while this ran; start_local_session brings \
                     up another one like it";
        assert_eq!(of(id)["error"], error, "{}", of(id));
        assert!(!exists(second));
        let (reply, is_error) = server.call("eval", json!({ "source": "1", "session": "a" }));
        assert!(is_error);
        assert_eq!(reply["phase"], "route");
        assert!(
            reply["error"]
                .as_str()
                .unwrap()
                .contains("start_local_session"),
            "{reply}"
        );
        let (reply, _) = server.call("stop_local_session", json!({ "session": "a" }));
        assert_eq!(reply["stopped"], false);
        let (reply, is_error) =
            server.call("restart_local_session", json!({ "session": "nosuch" }));
        assert!(
            is_error && reply["error"].as_str().unwrap().contains("known: a"),
            "{reply}"
        );
    });
}

#[test]
fn names_and_sizes_are_checked() {
    let mut server = Server::start(BYTECODE);
    for name in ["", "local", "a.1", "a b", "../a", "é", &"x".repeat(65)] {
        let (reply, is_error) = server.call("start_local_session", json!({ "session": name }));
        assert!(is_error, "{name}");
        assert_eq!(reply["phase"], "arguments", "{reply}");
        assert!(
            reply["error"].as_str().unwrap().contains("session"),
            "{reply}"
        );
    }
    for pool in [0, 65, 1_000_000] {
        let arguments = json!({ "session": "a", "pool": pool });
        let (reply, is_error) = server.call("start_local_session", arguments);
        assert!(
            is_error && reply["error"].as_str().unwrap().contains("from 1 to 64"),
            "{reply}"
        );
    }
}

#[test]
fn sessions_end_with_their_server() {
    each(|executable| {
        for signal in [None, Some("TERM"), Some("KILL")] {
            let mut server = Server::start(executable);
            server.session("busy", json!({}));
            server.session("idle", json!({ "pool": 2 }));
            server.call(
                "checkpoint",
                json!({ "label": "frozen", "session": "idle" }),
            );
            server.eval_in("busy", "#require \"unix\"");
            let ready = server.file("ready", "");
            fs::remove_file(&ready).unwrap();
            let source = format!(
                "let rec spin () = (try while true do () done with _ -> ()); spin () in close_out (open_out {ready:?}); spin ()"
            );
            server
                .client
                .begin_call("eval", json!({ "source": source, "session": "busy" }));
            eventually("it runs", || fs::exists(&ready).unwrap());
            let workers = children(server.client.child.id());
            // Two sessions, a sibling, what it is a copy of, and the checkpoint's process.
            assert_eq!(workers.len(), 5, "{workers:?}");
            match signal {
                None => server.client.finish_input(),
                Some(signal) => server.client.signal(signal),
            }
            if signal.is_none() {
                // It waits for the answer; the evaluation does not end by itself.
                server.client.signal("TERM");
            }
            server.client.wait();
            eventually("no process is left", || {
                !workers.iter().any(|pid| exists(*pid))
            });
        }
    });
}

#[test]
fn a_session_is_known_to_the_next_server() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("pre.ml");
        fs::write(&file, "let answer = 42").unwrap();
        let mut first = server_at(executable, home.path());
        let (reply, is_error) = first.call(
            "start_local_session",
            json!({ "session": "data", "prewarm": file, "pool": 2, "description": "the\nnumbers" }),
        );
        assert!(!is_error, "{reply}");
        first.finish();
        let mut second = server_at(executable, home.path());
        second.request("initialize", json!({ "protocolVersion": "2025-06-18" }));
        let reply = second.receive();
        let instructions = reply["result"]["instructions"].as_str().unwrap();
        assert!(
            instructions.contains("- data: the numbers (not running; start_local_session;"),
            "{instructions}"
        );
        assert!(instructions.len() < 2048);
        let (reply, _) = second.call("list_sessions", json!({}));
        assert_eq!(reply["sessions"][0]["live"], false, "{reply}");
        let (reply, is_error) = second.call("start_local_session", json!({ "session": "data" }));
        assert!(!is_error, "{reply}");
        assert_eq!(reply["sessions"], json!(["data", "data.1"]));
        let (reply, _) = second.call("eval", json!({ "source": "answer", "session": "data.1" }));
        assert_eq!(reply["value_repr"], "42", "{reply}");
    });
}
