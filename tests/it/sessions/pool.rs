//! Siblings: copies of a prewarmed process.

use std::fs;

use serde_json::json;

use super::{SEGFAULT, Server, eventually, exists, notice};
use crate::support::{each, toolchain};

#[test]
fn the_prewarm_of_a_pool_runs_once() {
    each(|executable| {
        let mut server = Server::start(executable);
        let trace = server.file("trace", "");
        let prewarm = server.file(
            "pre.ml",
            &format!("let state = ref 7\nlet () = let o = open_out_gen [Open_append] 0 {trace:?} in output_string o \"once \"; close_out o"),
        );
        let reply = server.session("p", json!({ "prewarm": prewarm, "pool": 4 }));
        assert_eq!(reply["sessions"], json!(["p", "p.1", "p.2", "p.3"]));
        assert!(reply.get("notice").is_none(), "{reply}");
        assert_eq!(fs::read_to_string(&trace).unwrap(), "once ");
        // Mutable state is copied and then apart.
        for (name, value) in [("p", 1), ("p.1", 2), ("p.2", 3)] {
            server.eval_in(name, &format!("state := !state + {value}"));
        }
        let states = ["p", "p.1", "p.2", "p.3"].map(|name| server.value_in(name, "!state"));
        assert_eq!(states, ["8", "9", "10", "7"]);
        // Each is a process with its own output, log and name.
        let pids = ["p", "p.1", "p.2", "p.3"].map(|name| server.pid_of(name));
        assert!((1..4).all(|i| pids[i] != pids[0]));
        let reply = server.eval_in("p.3", "print_endline \"out\"; prerr_endline \"err\"");
        assert_eq!(
            (&reply["stdout"], &reply["stderr"]),
            (&json!("out\n"), &json!("err\n"))
        );
        assert_eq!(server.eval_in("p", "()")["stdout"], "");
        let (reply, _) = server.call("checkpoint", json!({ "label": "p1", "session": "p.1" }));
        assert_eq!(reply["phrases"], 4, "{reply}");
        // They collect garbage, run threads and load libraries.
        assert_eq!(
            server.value_in("p.2", "Gc.full_major (); Gc.compact (); 1"),
            "1"
        );
        let reply = server.eval_in("p.2", "#require \"threads.posix\";; Thread.join (Thread.create (fun () -> state := 99) ());; !state");
        assert_eq!(reply["value_repr"], "99", "{reply}");
    });
}

#[test]
fn a_sibling_that_dies_is_copied_anew() {
    each(|executable| {
        let mut server = Server::start(executable);
        let prewarm = server.file(
            "pre.ml",
            "let state = ref 7 let big = List.init 1000 Fun.id",
        );
        server.session("p", json!({ "prewarm": prewarm, "pool": 3 }));
        server.eval_in("p", "let only_primary = 1");
        server.eval_in("p.1", "let mine = !state * 2");
        let others = ["p", "p.2"].map(|name| server.pid_of(name));
        let reply = server.eval_in("p.1", SEGFAULT);
        assert_eq!(
            (&reply["phase"], &reply["signal"]),
            (&json!("crash"), &json!("SIGSEGV")),
            "{reply}"
        );
        let reply = server.eval_in("p.1", "mine + List.length big");
        assert_eq!(reply["value_repr"], "1014", "{reply}");
        assert!(notice(&reply).contains("SIGSEGV"), "{reply}");
        assert!(
            notice(&reply)
                .contains("its 1 phrases again in another process that had been prewarmed"),
            "{reply}"
        );
        assert!(server.eval_in("p.1", "only_primary")["error"].is_string());
        assert_eq!(
            ["p", "p.2"].map(|name| server.pid_of(name)),
            others,
            "the others go on"
        );
    });
}

#[test]
fn where_a_copy_cannot_be_made_processes_are_started() {
    if toolchain("version").starts_with('4') {
        return;
    }
    each(|executable| {
        let mut server = Server::start(executable);
        let prewarm = server.file(
            "pre.ml",
            "let d = Domain.join (Domain.spawn (fun () -> 41))",
        );
        let reply = server.session("p", json!({ "prewarm": prewarm, "pool": 3 }));
        assert!(notice(&reply).contains("a domain was spawned"), "{reply}");
        for name in ["p", "p.1", "p.2"] {
            assert_eq!(server.value_in(name, "d + 1"), "42");
        }
        let (reply, is_error) =
            server.call("checkpoint", json!({ "label": "domains", "session": "p" }));
        assert!(
            !is_error && notice(&reply).contains("a domain was spawned"),
            "{reply}"
        );
        server.eval_in("p", "let d = 0");
        let (reply, is_error) =
            server.call("restore", json!({ "label": "domains", "session": "p" }));
        assert!(!is_error && notice(&reply).contains("replayed"), "{reply}");
        assert_eq!(server.value_in("p", "d"), "41");
    });
}

#[test]
fn a_primary_can_die_and_its_siblings_go_on() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("p", json!({ "pool": 2 }));
        server.eval_in("p.1", "let x = 1");
        let (primary, sibling) = (server.pid_of("p"), server.pid_of("p.1"));
        assert!(
            std::process::Command::new("sh")
                .args(["-c", &format!("kill -9 {primary}")])
                .status()
                .unwrap()
                .success()
        );
        eventually("it was waited for", || !exists(primary));
        assert_eq!(server.value_in("p.1", "x"), "1");
        assert_eq!(server.pid_of("p.1"), sibling);
        let reply = server.eval_in("p", "1 + 1");
        assert_eq!(reply["value_repr"], "2");
        assert!(notice(&reply).contains("SIGKILL"), "{reply}");
    });
}

#[test]
fn siblings_that_die_together_are_copied_anew_at_the_same_time() {
    each(|executable| {
        let mut server = Server::start(executable);
        let prewarm = server.file("pre.ml", "let state = ref 7");
        server.session("p", json!({ "prewarm": prewarm, "pool": 9 }));
        let names: Vec<String> = (1..9).map(|number| format!("p.{number}")).collect();
        for name in &names {
            server.eval_in(name, SEGFAULT);
        }
        for name in &names {
            let call = json!({ "source": "!state", "session": name });
            server.client.begin_call("eval", call);
        }
        for _ in &names {
            let (reply, _) = crate::support::payload(&server.client.receive());
            assert_eq!(reply["value_repr"], "7", "{reply}");
            assert!(!notice(&reply).contains("run again:"), "{reply}");
        }
    });
}
