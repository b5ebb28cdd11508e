//! What stands where topup should be.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use serde_json::json;

use super::home::Home;
use super::sshd::script;
use super::{near_at, pair};
use crate::support::{Executable, each};

#[test]
fn a_program_that_is_not_there_or_is_none_is_told() {
    each(programs);
}

fn programs(executable: Executable) {
    let (user, machine, mut near) = pair(executable);
    let topup = machine.home.path().join("bin/topup");
    fs::remove_file(&topup).unwrap();
    let said = near.refused("start_session", json!({ "host": "far" }), "connect");
    assert!(
        said.contains("not found") && said.contains("TOPUP_REMOTE_COMMAND"),
        "{said}"
    );
    for (text, says) in [
        ("echo hello", "is not topup"),
        ("echo topup-socket 9.9.9 /tmp/s", "version 9.9.9"),
        (
            "echo \"unexpected argument $1\" >&2; exit 2",
            "another version",
        ),
    ] {
        script(&topup, text);
        let said = near.refused("start_session", json!({ "host": "far" }), "handshake");
        assert!(said.contains(says), "{text}: {said}");
    }
    script(&topup, "echo one >&2; echo two >&2; exit 3");
    let said = near.refused("start_session", json!({ "host": "far" }), "connect");
    assert!(
        said.contains("one\ntwo") && said.contains("status 3"),
        "{said}"
    );
    // Another place for it, with a blank and a quote in its name.
    let odd = machine.home.path().join("a b'c");
    script(&odd, &format!("exec {} \"$@\"", executable.path));
    script(&topup, "exit 1");
    let home = Home::new();
    for place in [odd.to_str().unwrap(), "~/a b'c"] {
        let mut client = near_at(
            executable,
            &user,
            home.path(),
            &[("TOPUP_REMOTE_COMMAND", place)],
        );
        let (reply, is_error) = client.call("start_session", json!({ "host": "far" }));
        assert!(!is_error, "{place}: {reply}");
    }
}

/// The most memory that a process has had, in megabytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let words = line.unwrap().split_whitespace().next();
    words.unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn words_without_end_are_cut() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        let before = peak(near.client.child.id());
        for stream in ["1", "2"] {
            let flood = format!("head -c 200000000 /dev/zero >&{stream}; echo end >&2; exit 3");
            script(&machine.home.path().join("bin/topup"), &flood);
            let said = near.refused("start_session", json!({ "host": "far" }), "connect");
            assert!(
                said.contains("end\ntopup ended with status 3"),
                "{said:.100}"
            );
        }
        let after = peak(near.client.child.id());
        assert!(after < before + 50, "{before} MB, then {after} MB");
    });
}

/// Serves at `socket` in the place of topup: each request that comes gets the next of
/// `answers`, and then the connection ends.
fn impostor(socket: &UnixListener, answers: Vec<String>) -> JoinHandle<()> {
    let socket = socket.try_clone().unwrap();
    thread::spawn(move || {
        // The topup that ssh starts there comes first, and only looks whether somebody serves.
        let (mut client, mut line) = loop {
            let mut client = BufReader::new(socket.accept().unwrap().0);
            let mut line = String::new();
            if client.read_line(&mut line).unwrap() > 0 {
                break (client, line);
            }
        };
        for answer in answers {
            while !line.contains("\"id\"") {
                line.clear();
                if client.read_line(&mut line).unwrap() == 0 {
                    return;
                }
            }
            let _ = client.get_mut().write_all(format!("{answer}\n").as_bytes());
            line.clear();
        }
    })
}

#[test]
fn what_serves_there_and_is_no_topup_is_told() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        let socket = machine.home.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let hello = format!(
            r#"{{"id":1,"result":{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"topup","version":"{}"}}}}}}"#,
            env!("CARGO_PKG_VERSION")
        );
        let other = r#"{"id":1,"result":{"serverInfo":{"name":"other"}}}"#;
        let old = r#"{"id":1,"result":{"serverInfo":{"name":"topup","version":"9.9.9"}}}"#;
        let cases: [(&[&str], &str, &str); 10] = [
            (&["220 hello"], "handshake", "\"220 hello\""),
            (&["\u{0}\u{1}"], "handshake", "no message"),
            (&["[1, 2]\nnull\n{\"id\": 1}"], "handshake", "no result"),
            (
                &[r#"{"id":7,"result":1}"#],
                "connect",
                "closed before topup answered",
            ),
            (&[other], "handshake", "not topup"),
            (&[old], "handshake", "version 9.9.9"),
            (
                &[&hello, r#"{"id":2,"result":{}}"#],
                "handshake",
                "no result of a tool",
            ),
            (
                &[
                    &hello,
                    r#"{"id":2,"result":{"content":[],"isError":false}}"#,
                ],
                "handshake",
                "no result of a tool",
            ),
            (
                &[
                    &hello,
                    r#"{"id":2,"result":{"content":[{"text":"hello"}],"isError":false}}"#,
                ],
                "handshake",
                "no result of a tool",
            ),
            (
                &[
                    &hello,
                    r#"{"id":2,"result":{"content":[{"text":"{}"}],"isError":false}}"#,
                ],
                "handshake",
                "makes no sense",
            ),
        ];
        for (answers, phase, says) in cases {
            let answers: Vec<String> = answers.iter().map(|answer| answer.to_string()).collect();
            let server = impostor(&listener, answers.clone());
            let start = json!({ "host": "far", "remote_socket": socket });
            let said = near.refused("start_session", start, phase);
            assert!(said.contains(says), "{answers:?}: {said}");
            server.join().unwrap();
        }
    });
}
