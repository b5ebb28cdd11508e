//! What survives: tunnels, networks, daemons and this server may end.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::sshd::kill;
use super::{Near, User, pair};
use crate::sessions::eventually;
use crate::support::{BYTECODE, each, payload};

const SEGFAULT: &str = "String.length (Obj.magic 3 : string ref).contents";

impl Near {
    /// Waits until the server knows that its connection has ended.
    fn notices(&mut self) {
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
                .contains("connection was lost while eval ran"),
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
        kill("KILL", machine.sshd.topups()[0]);
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
        // While a call runs; and then the first thing is a tool that has no notices.
        let id = wait_there(&mut near, machine.home.path());
        kill("KILL", machine.sshd.topups()[0]);
        let reply = near.client.receive();
        assert_eq!(reply["id"], id);
        assert_eq!(payload(&reply).0["phase"], "connect", "{reply}");
        let reply = near.done("env", json!({ "host": "far" }));
        assert!(
            reply["notice"].as_str().unwrap().contains("phrases again"),
            "{reply}"
        );
        assert_eq!(reply["total"], 2, "{reply}");
        // What was forgotten on purpose stays so.
        near.done("reset", json!({ "host": "far" }));
        kill("KILL", machine.sshd.topups()[0]);
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
fn a_crash_there_is_the_daemons_own() {
    let (_user, _machine, mut near) = pair(BYTECODE);
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
    let (_user, mut machine, mut near) = pair(BYTECODE);
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

/// Passes bytes on between ssh and sshd, until it drops them.
struct Network {
    port: u16,
    dead: Arc<AtomicBool>,
}

impl Network {
    fn to(port: u16) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dead: Arc<AtomicBool> = Arc::default();
        let network = Network {
            port: listener.local_addr().unwrap().port(),
            dead: Arc::clone(&dead),
        };
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // Those that come later meet a network of their own time.
                let dead = Arc::clone(&dead);
                let was_dead = dead.load(Ordering::SeqCst);
                let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let dead = Arc::clone(&dead);
                    thread::spawn(move || pass(from, to, &dead, was_dead));
                }
            }
        });
        network
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, dead: &AtomicBool, from_the_end: bool) {
    let mut chunk = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if !from_the_end && dead.load(Ordering::SeqCst) {
            // Not even the end of a connection is told.
            continue;
        }
        if to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    if from_the_end || !dead.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_network_that_drops_everything_is_noticed() {
    let user = User::new();
    let machine = user.machine(BYTECODE);
    let network = Network::to(machine.sshd.port);
    user.configure(&[("far", network.port)], "");
    let config = fs::read_to_string(user.path("config")).unwrap();
    let config = config.replace("LogLevel ERROR", "LogLevel INFO");
    fs::write(user.path("config"), config).unwrap();
    let mut near = Near::start(BYTECODE, &user);
    near.connect("far");
    near.eval_on("far", "let x = 41");
    let id = wait_there(&mut near, machine.home.path());
    network.dead.store(true, Ordering::SeqCst);
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
