//! Workers that end: one reply, then the session is back.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::{SEGFAULT, Server, children, eventually, exists, notice};
use crate::support::{BYTECODE, assert_timed_out, each, toolchain};

#[test]
fn a_crash_costs_one_reply() {
    each(|executable| {
        let mut server = Server::start(executable);
        let prewarm = server.file("pre.ml", "let base = 40");
        server.session("a", json!({ "prewarm": prewarm }));
        server.eval_in("a", "#require \"unix\"");
        server.eval_in("a", "let x = base + 1 let r = ref 1");
        for (source, signal) in [
            (
                "prerr_string \"said\"; flush stderr; String.length (Obj.magic 3 : string ref).contents",
                Some("SIGSEGV"),
            ),
            ("Unix._exit 3", None),
            ("Unix.kill (Unix.getpid ()) Sys.sigabrt", Some("SIGABRT")),
            ("Unix.kill (Unix.getpid ()) Sys.sigkill", Some("SIGKILL")),
            ("Unix.kill (Unix.getpid ()) Sys.sigterm", Some("SIGTERM")),
        ] {
            let pid = server.pid_of("a");
            let reply = server.eval_in("a", source);
            assert_eq!(reply["phase"], "crash", "{source}: {reply}");
            assert_eq!(reply["signal"].as_str(), signal, "{source}: {reply}");
            if source.starts_with("prerr") {
                assert_eq!(reply["stderr"], "said", "{reply}");
            }
            assert!(!exists(pid), "it was waited for");
            let reply = server.eval_in("a", "x + 1");
            if notice(&reply).contains("starts afresh") {
                // The third end in a minute.
                server.eval_in("a", "#require \"unix\";; let x = base + 1 let r = ref 1");
                continue;
            }
            assert_eq!(reply["value_repr"], "42", "{source}: {reply}");
            assert!(notice(&reply).contains("restored"), "{reply}");
            assert!(
                server.eval_in("a", "!r").get("notice").is_none(),
                "it is said once"
            );
        }
        assert_eq!(
            children(server.client.child.id()).len(),
            1,
            "no process piles up"
        );
        // The server itself is where it was.
        assert_eq!(server.client.eval("1 + 1")["value_repr"], "2");
    });
}

#[test]
fn a_session_that_was_checkpointed_has_its_log_to_itself() {
    let mut server = Server::start(BYTECODE);
    server.session("a", json!({}));
    server.eval_in("a", "let x = 41");
    server.call("checkpoint", json!({ "label": "cp", "session": "a" }));
    server.eval_in("a", SEGFAULT);
    let reply = server.eval_in("a", "x + 1");
    assert_eq!(reply["value_repr"], "42", "{reply}");
    let again = json!({ "label": "again", "session": "a" });
    assert_eq!(server.call("checkpoint", again).0["phrases"], 2);
}

#[test]
fn a_withdrawn_call_is_stopped_in_the_next_image_too() {
    let mut server = Server::start(BYTECODE);
    server.session("a", json!({}));
    let flag = server.home.path().join("runs");
    let source = format!(
        "close_out (open_out {:?}); (try while true do () done with _ -> ()); while true do () done",
        flag.display()
    );
    let call = json!({ "source": source, "session": "a" });
    let id = server.client.begin_call("eval", call);
    eventually("it runs", || flag.exists());
    // In one write: the server withdraws the call and comes to its end in the same moment.
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    let crash = server
        .client
        .call_line("eval", json!({ "source": SEGFAULT }));
    server
        .client
        .send_bytes(format!("{cancelled}\n{crash}\n").as_bytes());
    let (reply, _) = crate::support::payload(&server.client.receive());
    assert_eq!(reply["phase"], "crash", "{reply}");
    assert_eq!(server.value_in("a", "1 + 1"), "2");
}

#[test]
fn the_third_end_in_a_minute_begins_afresh() {
    let mut server = Server::start(BYTECODE);
    let prewarm = server.file("pre.ml", "let base = 40");
    server.session("a", json!({ "prewarm": prewarm }));
    server.eval_in("a", "let x = 1");
    for time in 1..=3 {
        server.eval_in("a", SEGFAULT);
        let reply = server.eval_in("a", "x");
        match time {
            3 => assert!(
                notice(&reply).contains("starts afresh") && reply["error"].is_string(),
                "{reply}"
            ),
            _ => assert_eq!(reply["value_repr"], "1", "{reply}"),
        }
    }
    assert_eq!(
        server.value_in("a", "base"),
        "40",
        "the prewarm is part of a fresh start"
    );
}

#[test]
fn a_phrase_that_crashes_the_replay_is_left_out() {
    each(|executable| {
        let mut server = Server::start(executable);
        let flag = server.file("flag", "");
        fs::remove_file(&flag).unwrap();
        server.session("a", json!({}));
        server.eval_in("a", "let a = 1");
        let source = format!("let b = if Sys.file_exists {flag:?} then {SEGFAULT} else 2");
        assert_eq!(server.value_in("a", &source), "2");
        server.eval_in("a", "let c = 3");
        fs::write(&flag, "").unwrap();
        server.eval_in("a", SEGFAULT);
        let reply = server.eval_in("a", "a + c");
        assert_eq!(reply["value_repr"], "4", "{reply}");
        assert!(notice(&reply).contains("not restored: phrase 2"), "{reply}");
        assert!(server.eval_in("a", "b")["error"].is_string());
    });
}

#[test]
fn timeouts_and_what_nothing_interrupts() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.eval_in("a", "let x = 41");
        let pid = server.pid_of("a");
        let within = |source: &str| json!({ "source": source, "session": "a", "timeout": 0.2 });
        let (reply, _) = server.call("eval", within("while true do () done"));
        assert_timed_out(&reply);
        assert_eq!(server.pid_of("a"), pid, "it was interrupted");
        if !toolchain("version").starts_with('4') {
            let source = "Domain.join (Domain.spawn (fun () -> while true do () done))";
            let (reply, _) = server.call("eval", within(source));
            assert_timed_out(&reply);
            assert_eq!(reply["phase"], "crash", "{reply}");
            assert!(!exists(pid), "it was killed");
        }
        assert_eq!(server.value_in("a", "x + 1"), "42");
    });
}

#[test]
fn memory_of_a_worker_has_the_limit() {
    let home = tempfile::tempdir().unwrap();
    let mut client = crate::support::Client::start_with(BYTECODE, |command| {
        command
            .env("HOME", home.path())
            .env("TOPUP_MEMORY_MAX", (300 << 20).to_string());
    });
    client.call("start_local_session", json!({ "session": "a" }));
    let source = "let l = ref [] in while true do l := Bytes.make 100_000 'x' :: !l done";
    let (reply, _) = client.call("eval", json!({ "source": source, "session": "a" }));
    assert_eq!(reply["diagnostics"][0]["kind"], "memory", "{reply}");
}

#[test]
fn programs_of_a_worker_end_with_it() {
    let mut server = Server::start(BYTECODE);
    let file = server.file("pid", "");
    server.session("a", json!({}));
    let command = format!("sleep 600 & echo $! >{file}.new; mv {file}.new {file}; wait");
    server.client.begin_call(
        "eval",
        json!({ "source": format!("Sys.command {command:?}"), "session": "a" }),
    );
    eventually("the program runs", || {
        fs::read_to_string(&file).is_ok_and(|text| !text.is_empty())
    });
    let program: u32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let worker = children(server.client.child.id())[0];
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill -9 {worker}")])
            .status()
            .unwrap()
            .success()
    );
    let (reply, _) = crate::support::payload(&server.client.receive());
    assert_eq!(reply["signal"], "SIGKILL", "{reply}");
    eventually("the program has ended", || {
        fs::read_to_string(format!("/proc/{program}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn exit_is_the_evaluations_alone() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        let pid = server.pid_of("a");
        server.eval_in(
            "a",
            "let x = ref 1;; at_exit (fun () -> print_string \"bye\")",
        );
        let reply = server.eval_in("a", "x := 2; exit 3");
        assert_eq!(reply["diagnostics"][0]["kind"], "exit", "{reply}");
        assert_eq!(reply["stdout"], "bye");
        assert_eq!(server.value_in("a", "!x"), "2");
        assert_eq!(server.pid_of("a"), pid);
    });
}

#[test]
fn a_crash_of_the_local_session_leaves_the_named_ones_alone() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({ "pool": 2 }));
        server.eval_in("a", "#require \"unix\";; let x = ref 0;; failwith \"mutable state shows that it is the same process\"");
        server.call("checkpoint", json!({ "label": "cp", "session": "a" }));
        let pids = ["a", "a.1"].map(|name| server.pid_of(name));
        let server_pid = server.client.child.id();
        // In flight there: a batch in its second element, and what waits behind it.
        let ready = server.file("ready", "");
        fs::remove_file(&ready).unwrap();
        let wait = format!(
            "incr x; close_out (open_out {ready:?}); while not (Sys.file_exists {:?}) do Unix.sleepf 0.01 done; print_string \"waited\"",
            format!("{ready}.go")
        );
        let batch = server.client.begin_call(
            "eval_batch",
            json!({ "sources": ["incr x", wait, "incr x; !x"], "session": "a" }),
        );
        let behind = server
            .client
            .begin_call("eval", json!({ "source": "!x * 10", "session": "a" }));
        eventually("it runs", || fs::exists(&ready).unwrap());
        let (crash, is_error) = server.call("eval", json!({ "source": SEGFAULT }));
        assert!(is_error && crash["phase"] == "crash", "{crash}");
        assert_eq!(server.value_in("a.1", "1 + 1"), "2");
        fs::write(format!("{ready}.go"), "").unwrap();
        let reply = server.client.receive();
        assert_eq!(reply["id"], batch, "{reply}");
        let (reply, _) = crate::support::payload(&reply);
        assert_eq!(reply["results"].as_array().unwrap().len(), 3, "{reply}");
        assert_eq!(reply["results"][1]["stdout"], "waited", "{reply}");
        assert_eq!(
            reply["results"][2]["value_repr"], "3",
            "nothing was done twice: {reply}"
        );
        let reply = server.client.receive();
        assert_eq!(reply["id"], behind, "{reply}");
        assert_eq!(crate::support::payload(&reply).0["value_repr"], "30");
        assert_eq!(["a", "a.1"].map(|name| server.pid_of(name)), pids);
        assert_eq!(server.client.child.id(), server_pid);
        let (reply, _) = server.call("restore", json!({ "label": "cp", "session": "a" }));
        assert!(notice(&reply).starts_with("went back"), "{reply}");
        assert_eq!(server.value_in("a", "!x"), "0");
    });
}

#[test]
fn how_a_worker_ended_is_known_to_the_next_image() {
    each(|executable| {
        for waits in [true, false] {
            let mut server = Server::start(executable);
            server.session("a", json!({}));
            server.eval_in("a", "let x = 1");
            server.client.eval("1");
            let pid = server.pid_of("a");
            let killed = Command::new("sh")
                .args(["-c", &format!("kill -9 {pid}")])
                .status();
            assert!(killed.unwrap().success());
            if waits {
                eventually("it was waited for", || !exists(pid));
            }
            let reply = server.client.eval(SEGFAULT);
            assert_eq!(reply["phase"], "crash", "{reply}");
            let reply = server.eval_in("a", "x");
            assert_eq!(reply["value_repr"], "1", "{reply}");
            assert!(notice(&reply).contains("ended by SIGKILL"), "{reply}");
        }
    });
}
