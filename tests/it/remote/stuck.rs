//! What does not answer: a phrase log that does not end, a network that is silent, a topup
//! that is stopped.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::sshd::{kill, script};
use super::{Machine, Near, User, pair};
use crate::sessions::eventually;
use crate::support::{BYTECODE, Executable, each, payload};

/// A host that takes connections and says nothing.
const SILENT: &str = "Host silent\n  HostName 127.0.0.1\n  Port";

impl Near {
    /// Receives the replies to `calls`, in whatever order.
    fn replies(&mut self, calls: &[u64]) -> Vec<Value> {
        let received: Vec<Value> = calls.iter().map(|_| self.client.receive()).collect();
        let of = |id: &u64| {
            let reply = received.iter().find(|reply| reply["id"] == *id);
            payload(reply.expect("a reply")).0
        };
        calls.iter().map(of).collect()
    }

    fn begin_eval(&mut self, source: &str) -> u64 {
        let call = json!({ "source": source, "host": "far" });
        self.client.begin_call("eval", call)
    }
}

fn notice(reply: &Value) -> &str {
    reply["notice"]
        .as_str()
        .unwrap_or_else(|| panic!("a notice: {reply}"))
}

/// A session whose topup has ended, and whose log does not end when it is run again unless the
/// file `go` is in the home there; then the file `runs` is.
fn ended_with_an_endless_log(executable: Executable) -> (User, Machine, Near) {
    let (user, machine, mut near) = pair(executable);
    near.connect("far");
    let at = |name: &str| machine.home.path().join(name);
    fs::write(at("go"), "").unwrap();
    near.value_on("far", "let before = 1");
    let endless = format!(
        "let endless = close_out (open_out {:?}); while not (Sys.file_exists {:?}) do () done; 2",
        at("runs"),
        at("go")
    );
    near.value_on("far", &endless);
    near.value_on("far", "let after = 40");
    fs::remove_file(at("go")).unwrap();
    fs::remove_file(at("runs")).unwrap();
    kill("KILL", machine.topups()[0]);
    near.notices();
    (user, machine, near)
}

fn runs(machine: &Machine) {
    let runs = machine.home.path().join("runs");
    eventually("the log is run again", || runs.exists());
}

#[test]
fn cancel_gives_up_the_phrase_that_a_log_is_at() {
    each(|executable| {
        let (_user, machine, mut near) = ended_with_an_endless_log(executable);
        let waits = near.begin_eval("before + after");
        runs(&machine);
        let cancel = near.client.begin_call("cancel", json!({ "host": "far" }));
        let replies = near.replies(&[waits, cancel]);
        assert_eq!(replies[1]["cancelled"], true);
        assert_eq!(replies[0]["value_repr"], "41", "{}", replies[0]);
        let told = notice(&replies[0]);
        assert!(
            told.contains("its state is lost") && told.contains("not restored: phrase 2"),
            "{told}"
        );
    });
}

#[test]
fn a_log_that_does_not_end_holds_up_neither_restart_nor_stop() {
    each(|executable| {
        let (_user, machine, mut near) = ended_with_an_endless_log(executable);
        let waits = near.begin_eval("before");
        runs(&machine);
        let restart = json!({ "host": "far" });
        let restart = near.client.begin_call("restart_session", restart);
        let replies = near.replies(&[waits, restart]);
        let [waited, restarted] = &replies[..] else {
            unreachable!()
        };
        assert_eq!(waited["phase"], "connect", "{waited}");
        assert!(
            waited["error"]
                .as_str()
                .unwrap()
                .contains("restart_session"),
            "{waited}"
        );
        assert_eq!(restarted["started"], true, "{restarted}");
        assert!(notice(restarted).contains("given up"), "{restarted}");
        // It goes on there, and whoever calls waits for it.
        let waits = near.begin_eval("before + after");
        let stop = json!({ "host": "far" });
        let stop = near.client.begin_call("stop_session", stop);
        let replies = near.replies(&[waits, stop]);
        assert_eq!(replies[1]["stopped"], true);
        let said = replies[0]["error"].to_string();
        assert!(said.contains("stop_session ended it"), "{said}");
        fs::write(machine.home.path().join("go"), "").unwrap();
        near.connect("far");
        assert_eq!(near.value_on("far", "before + endless + after"), "43");
        // A call that is taken back takes no notice with it.
        let _ = fs::remove_file(machine.home.path().join("go"));
        fs::remove_file(machine.home.path().join("runs")).unwrap();
        kill("KILL", machine.topups()[0]);
        near.notices();
        let taken_back = near.begin_eval("before");
        runs(&machine);
        near.client.send_line(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                     "params": { "requestId": taken_back } })
            .to_string(),
        );
        let waits = near.begin_eval("before + after");
        let ping = near.client.request("ping", json!({}));
        assert_eq!(near.client.receive()["id"], ping, "it is answered at once");
        fs::write(machine.home.path().join("go"), "").unwrap();
        let reply = near.client.receive();
        assert_eq!(reply["id"], waits);
        assert!(
            notice(&payload(&reply).0).contains("phrases again"),
            "{reply}"
        );
    });
}

#[test]
fn a_session_that_is_left_while_its_log_is_run_is_told() {
    each(|executable| {
        let (_user, machine, mut near) = ended_with_an_endless_log(executable);
        let waits = near.begin_eval("before");
        runs(&machine);
        let stop = json!({ "host": "far" });
        let stop = near.client.begin_call("stop_session", stop);
        near.replies(&[waits, stop]);
        fs::write(machine.home.path().join("go"), "").unwrap();
        let reply = near.connect("far");
        assert!(notice(&reply).contains("its state is lost"), "{reply}");
        assert_eq!(near.value_on("far", "before + endless + after"), "43");
    });
}

#[test]
fn a_crash_here_while_the_log_is_run_there_is_told() {
    each(|executable| {
        let (_user, machine, mut near) = ended_with_an_endless_log(executable);
        let waits = near.begin_eval("before + endless + after");
        runs(&machine);
        let crash = json!({ "source": "String.length (Obj.magic 3 : string ref).contents" });
        let crash = near.client.begin_call("eval", crash);
        let reply = near.client.receive();
        assert_eq!(reply["id"], crash);
        assert_eq!(payload(&reply).0["phase"], "crash", "{reply}");
        // The call was not sent yet; now it waits there for the log.
        fs::write(machine.home.path().join("go"), "").unwrap();
        let reply = near.client.receive();
        assert_eq!(reply["id"], waits);
        let told = payload(&reply).0;
        assert_eq!(told["value_repr"], "43", "{told}");
        assert!(notice(&told).contains("its state is lost"), "{told}");
    });
}

/// A user who cannot reach the host `silent`, and whose attempts are lines of a file.
fn unlucky(executable: Executable, listener: &TcpListener) -> (User, Near) {
    let user = User::new();
    let port = listener.local_addr().unwrap().port();
    user.configure(&[], "");
    let config = fs::read_to_string(user.path("config")).unwrap();
    let config = format!("{SILENT} {port}\n  ConnectTimeout 3\n{config}");
    fs::write(user.path("config"), config).unwrap();
    let attempts = user.path("attempts");
    let text = format!(
        "echo >> {}; exec {} \"$@\"",
        attempts.display(),
        user.command()
    );
    script(&user.path("counting"), &text);
    let counting = user.path("counting").display().to_string();
    let near = Near::start_with(executable, &user, &[("TOPUP_SSH", &counting)]);
    (user, near)
}

fn attempts(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn calls_that_wait_for_a_host_share_one_attempt() {
    each(|executable| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (user, mut near) = unlucky(executable, &listener);
        let host = json!({ "host": "silent" });
        let mut calls = vec![near.client.begin_call("start_session", host.clone())];
        // What is sent to a host before it is connected waits for that.
        for _ in 0..5 {
            calls.push(near.client.begin_call("env", host.clone()));
        }
        for reply in near.replies(&calls) {
            assert_eq!(reply["phase"], "connect", "{reply}");
            assert!(
                reply["error"].as_str().unwrap().contains("timed out"),
                "{reply}"
            );
        }
        assert_eq!(attempts(&user.path("attempts")), 1);
        let said = near.refused("env", host, "route");
        assert!(said.contains("no host \"silent\""), "{said}");
    });
}

#[test]
fn an_attempt_can_be_cancelled_and_stopped() {
    each(|executable| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (user, mut near) = unlucky(executable, &listener);
        let host = json!({ "host": "silent" });
        let said = near.refused("cancel", host.clone(), "route");
        assert!(said.contains("no host"), "{said}");
        for (tool, answer) in [("cancel", "cancelled"), ("stop_session", "stopped")] {
            let before = attempts(&user.path("attempts"));
            let start = near.client.begin_call("start_session", host.clone());
            let env = near.client.begin_call("env", host.clone());
            eventually("it tries", || attempts(&user.path("attempts")) > before);
            let ends = near.client.begin_call(tool, host.clone());
            let replies = near.replies(&[start, env, ends]);
            assert_eq!(replies[2][answer], tool == "cancel", "{}", replies[2]);
            for reply in &replies[..2] {
                assert_eq!(reply["phase"], "connect", "{reply}");
                let said = reply["error"].as_str().unwrap();
                assert!(said.contains(tool) || said.contains(answer), "{said}");
            }
        }
        eventually("no ssh is left", || near.home.processes().len() == 1);
    });
}

#[test]
fn cancel_reaches_what_a_lost_connection_has_left() {
    each(|executable| {
        let (_user, mut machine, mut near) = pair(executable);
        near.connect("far");
        let runs = machine.home.path().join("runs");
        let endless = format!("close_out (open_out {runs:?}); while true do () done");
        let waits = near.begin_eval(&endless);
        eventually("it runs", || runs.exists());
        machine.sshd.stop();
        assert_eq!(near.client.receive()["id"], waits);
        let said = near.refused("cancel", json!({ "host": "far" }), "connect");
        assert!(said.contains("Connection refused"), "{said}");
        machine.sshd.start_again();
        let reply = near.done("cancel", json!({ "host": "far" }));
        assert_eq!(reply["cancelled"], true);
        assert_eq!(near.value_on("far", "1 + 1"), "2");
    });
}

#[test]
fn a_topup_that_is_stopped_is_told() {
    let (_user, machine, mut near) = pair(BYTECODE);
    near.connect("far");
    let topup = machine.topups()[0];
    let waits = near.begin_eval("while true do () done");
    kill("STOP", topup);
    let said = near.refused("cancel", json!({ "host": "far" }), "connect");
    assert!(said.contains("restart_session"), "{said}");
    let end = json!({ "host": "far", "end": true });
    let said = near.refused("stop_session", end.clone(), "connect");
    assert!(said.contains(&format!("process {topup}")), "{said}");
    // Keep-alives of ssh do not notice it.
    let reply = near.client.receive();
    assert_eq!(reply["id"], waits);
    let (reply, _) = payload(&reply);
    assert_eq!(reply["phase"], "connect", "{reply}");
    assert!(
        reply["error"].as_str().unwrap().contains("is stopped"),
        "{reply}"
    );
    kill("CONT", topup);
    assert_eq!(near.done("stop_session", end)["stopped"], true);
    eventually("it ends", || machine.topups().is_empty());
}
