//! What survives: tunnels, networks, daemons and this server may end.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::network::{Mode, Network};
use super::sshd::kill;
use super::{Near, User, pair};
use crate::sessions::eventually;
use crate::support::{BYTECODE, Executable, each, payload};

const SEGFAULT: &str = "String.length (Obj.magic 3 : string ref).contents";

impl Near {
    /// Waits until the server knows that its connection has ended.
    pub fn notices(&mut self) {
        while self.done("list_sessions", json!({}))["hosts"][0]["live"] == true {}
    }
}

/// Begins an evaluation that waits for the file `go` in the home there, and runs already.
fn wait_there(near: &mut Near, home: &std::path::Path) -> u64 {
    let (ready, go) = (home.join("ready"), home.join("go"));
    let _ = fs::remove_file(&ready);
    let source = format!(
        "close_out (open_out {ready:?}); while not (Sys.file_exists {go:?}) do () done;; let waited = 1"
    );
    let id = near
        .client
        .begin_call("eval", json!({ "source": source, "host": "far" }));
    eventually("it runs", || ready.exists());
    id
}

#[test]
fn a_tunnel_that_is_killed_costs_the_calls_in_flight() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        near.eval_on("far", "let x = ref 41");
        let id = wait_there(&mut near, machine.home.path());
        kill("KILL", near.tunnel());
        let reply = near.client.receive();
        assert_eq!(reply["id"], id);
        let (reply, is_error) = payload(&reply);
        assert!(is_error && reply["phase"] == "connect", "{reply}");
        assert!(
            reply["error"]
                .as_str()
                .unwrap()
                .contains("connection was lost while eval ran there: ssh was ended by SIGKILL"),
            "{reply}"
        );
        fs::write(machine.home.path().join("go"), "").unwrap();
        // The next call connects again, to the same process.
        let reply = near.eval_on("far", "incr x; !x");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        assert!(reply.get("notice").is_none(), "{reply}");
        let tunnel = near.tunnel();
        let reply = near.done("restart_session", json!({ "host": "far" }));
        assert_eq!(reply["started"], true, "{reply}");
        assert_ne!(near.tunnel(), tunnel);
        assert_eq!(near.value_on("far", "!x"), "42");
    });
}

#[test]
fn a_daemon_that_is_killed_is_told_and_its_log_run_again() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        near.eval_on("far", "let x = 41");
        near.eval_on("far", "let f () = x + 1");
        kill("KILL", machine.topups()[0]);
        near.notices();
        let reply = near.eval_on("far", "f ()");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        let notice = reply["notice"].as_str().unwrap();
        assert!(
            notice.contains("its state is lost") && notice.contains("2 phrases again"),
            "{notice}"
        );
        assert!(
            near.eval_on("far", "x").get("notice").is_none(),
            "it is said once"
        );
        // While a call runs, which is told.
        let id = wait_there(&mut near, machine.home.path());
        kill("KILL", machine.topups()[0]);
        let reply = near.client.receive();
        assert_eq!(reply["id"], id);
        let (reply, _) = payload(&reply);
        assert_eq!(reply["phase"], "connect", "{reply}");
        let said = reply["error"].as_str().unwrap();
        assert!(
            said.contains("its state is lost") && said.contains("phrases again"),
            "{said}"
        );
        let reply = near.done("env", json!({ "host": "far" }));
        assert!(reply.get("notice").is_none(), "it is said once: {reply}");
        assert_eq!(reply["total"], 2, "{reply}");
        // The first thing after it is a tool that has no notices of its own.
        kill("KILL", machine.topups()[0]);
        near.notices();
        let reply = near.done("env", json!({ "host": "far" }));
        assert!(
            reply["notice"].as_str().unwrap().contains("phrases again"),
            "{reply}"
        );
        // What was forgotten on purpose stays so.
        near.done("reset", json!({ "host": "far" }));
        kill("KILL", machine.topups()[0]);
        near.notices();
        let reply = near.done("restart_session", json!({ "host": "far" }));
        assert!(
            reply["notice"].as_str().unwrap().contains("empty"),
            "{reply}"
        );
        assert!(near.eval_on("far", "x")["error"].is_string());
    });
}

#[test]
fn a_daemon_that_is_killed_while_it_runs_the_log_again_loses_nothing() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        let (runs, go) = (
            machine.home.path().join("runs"),
            machine.home.path().join("go"),
        );
        fs::write(&go, "").unwrap();
        let keep = format!(
            "let keep = close_out (open_out {runs:?}); while not (Sys.file_exists {go:?}) do () done; 42"
        );
        near.eval_on("far", &keep);
        kill("KILL", machine.topups()[0]);
        near.notices();
        fs::remove_file(&go).unwrap();
        fs::remove_file(&runs).unwrap();
        let call = json!({ "source": "keep", "host": "far" });
        near.client.begin_call("eval", call);
        eventually("the log is run again", || runs.exists());
        kill("KILL", machine.topups()[0]);
        fs::write(&go, "").unwrap();
        near.client.receive();
        assert_eq!(near.eval_on("far", "keep")["value_repr"], "42");
    });
}

#[test]
fn the_next_call_tells_that_the_state_is_lost_however_soon_it_comes() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        near.value_on("far", "let x = 41");
        for _ in 0..5 {
            let topups = machine.topups();
            kill("KILL", topups[0]);
            // It may be on its way before we know.
            let (reply, is_error) = near.call("env", json!({ "host": "far" }));
            let told = reply[if is_error { "error" } else { "notice" }].as_str();
            assert!(
                told.is_some_and(|told| told.contains("its state is lost")),
                "{reply}"
            );
            assert_eq!(near.value_on("far", "x"), "41");
        }
    });
}

#[test]
fn without_a_log_there_is_nothing_to_restore() {
    each(|executable| {
        let user = User::new();
        let machine = user.machine_limited(executable, &[("TOPUP_LOG", "off")]);
        user.configure(&[("far", machine.sshd.port)], "");
        let mut near = Near::start(executable, &user);
        near.connect("far");
        near.value_on("far", "let x = 41");
        kill("KILL", machine.topups()[0]);
        near.notices();
        let reply = near.eval_on("far", "x");
        assert!(reply["error"].is_string(), "{reply}");
        let notice = reply["notice"].as_str().unwrap();
        assert!(notice.contains("which is empty"), "{notice}");
    });
}

#[test]
fn a_crash_there_is_the_daemons_own() {
    each(it_crashes_there);
}

fn it_crashes_there(executable: Executable) {
    let (_user, _machine, mut near) = pair(executable);
    near.connect("far");
    near.eval_on("far", "let x = 41");
    let reply = near.eval_on("far", SEGFAULT);
    assert_eq!(reply["phase"], "crash", "{reply}");
    let reply = near.eval_on("far", "x");
    assert_eq!(reply["value_repr"], "41", "{reply}");
    assert!(
        reply["notice"].as_str().unwrap().contains("restored"),
        "{reply}"
    );
}

#[test]
fn a_crash_here_connects_again() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        near.eval_on("far", "let x = ref 1");
        let id = wait_there(&mut near, machine.home.path());
        let crash = near
            .client
            .begin_call("eval", json!({ "source": SEGFAULT }));
        let replies = [near.client.receive(), near.client.receive()];
        let of = |id: u64| payload(replies.iter().find(|r| r["id"] == id).expect("a reply")).0;
        assert_eq!(of(crash)["phase"], "crash");
        let reply = of(id);
        assert_eq!(reply["phase"], "connect", "{reply}");
        fs::write(machine.home.path().join("go"), "").unwrap();
        assert_eq!(near.value_on("far", "incr x; !x"), "2");
        assert_eq!(near.client.eval("1 + 1")["value_repr"], "2");
    });
}

#[test]
fn an_sshd_that_is_stopped_fails_calls_and_the_next_one_tries() {
    each(sshd_stops);
}

fn sshd_stops(executable: Executable) {
    let (_user, mut machine, mut near) = pair(executable);
    near.connect("far");
    near.eval_on("far", "let x = 41");
    let id = wait_there(&mut near, machine.home.path());
    machine.sshd.stop();
    let reply = near.client.receive();
    assert_eq!(reply["id"], id);
    assert_eq!(payload(&reply).0["phase"], "connect", "{reply}");
    let said = near.refused("eval", json!({ "source": "x", "host": "far" }), "connect");
    assert!(said.contains("Connection refused"), "{said}");
    fs::write(machine.home.path().join("go"), "").unwrap();
    machine.sshd.start_again();
    assert_eq!(near.value_on("far", "x"), "41");
    near.done("stop_session", json!({ "host": "far", "end": true }));
}

#[test]
fn a_network_that_drops_everything_is_noticed() {
    each(everything_is_dropped);
}

fn everything_is_dropped(executable: Executable) {
    let user = User::new();
    let machine = user.machine(executable);
    let network = Network::to(machine.sshd.port);
    user.configure(&[("far", network.port)], "");
    let config = fs::read_to_string(user.path("config")).unwrap();
    let config = config.replace("LogLevel ERROR", "LogLevel INFO");
    fs::write(user.path("config"), config).unwrap();
    let mut near = Near::start(executable, &user);
    near.connect("far");
    near.eval_on("far", "let x = 41");
    let id = wait_there(&mut near, machine.home.path());
    network.becomes(Mode::Drops);
    let begun = Instant::now();
    let reply = near.client.receive();
    let took = begun.elapsed();
    assert_eq!(reply["id"], id);
    let (reply, _) = payload(&reply);
    assert_eq!(reply["phase"], "connect", "{reply}");
    let said = reply["error"].as_str().unwrap();
    assert!(said.contains("Timeout"), "{said}");
    assert!(took < Duration::from_secs(16), "{took:?}");
    fs::write(machine.home.path().join("go"), "").unwrap();
    // The far side has not noticed: its topup serves a client that is no longer there.
    let begun = Instant::now();
    let reply = near.eval_on("far", "x + waited");
    assert_eq!(reply["value_repr"], "42", "{reply}");
    assert!(
        begun.elapsed() < Duration::from_secs(16),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_client_that_is_there_is_not_displaced() {
    let (user, _machine, mut near) = pair(BYTECODE);
    near.connect("far");
    near.eval_on("far", "let x = 41");
    let mut other = Near::start(BYTECODE, &user);
    let said = other.refused("start_session", json!({ "host": "far" }), "handshake");
    assert!(
        said.contains("one client at a time") && said.contains("remote_socket"),
        "{said}"
    );
    assert_eq!(near.value_on("far", "x"), "41");
    // One of its own is there for it.
    let elsewhere = json!({ "host": "far", "remote_socket": "~/other.sock" });
    other.done("start_session", elsewhere);
    assert!(other.eval_on("far", "x")["error"].is_string());
    assert_eq!(near.value_on("far", "x"), "41");
}
