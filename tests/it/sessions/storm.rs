//! Many sessions at once: every call gets exactly one right answer.

use std::collections::HashMap;
use std::process::Command;

use serde_json::{Value, json};

use super::{Server, children, eventually, exists};
use crate::support::{Random, each, payload};

const SESSIONS: usize = 8;
const CALLS: u64 = 1000;
/// Calls that wait for their answers at a time.
const AHEAD: usize = 24;

/// What a call may come to.
enum Expected {
    /// This value, unless its session is killed or cancelled meanwhile.
    Value(String),
    Timeout,
    TypeError,
}

#[test]
fn a_thousand_calls_to_eight_sessions() {
    each(|executable| {
        // Kills more often than thrice a minute begin a session afresh: nothing here depends
        // on what was evaluated before.
        let mut random = Random(42);
        let mut server = Server::start(executable);
        for number in 0..SESSIONS / 2 {
            server.session(&format!("s{number}"), json!({}));
        }
        server.session("p", json!({ "pool": SESSIONS - SESSIONS / 2 }));
        let names: Vec<String> = (0..SESSIONS / 2)
            .map(|n| format!("s{n}"))
            .chain((0..SESSIONS / 2).map(|n| if n == 0 { "p".into() } else { format!("p.{n}") }))
            .collect();
        let calls = if executable.variant == "native" {
            CALLS / 2
        } else {
            CALLS
        };
        let mut pending: HashMap<u64, (String, Expected)> = HashMap::new();
        let (mut answered, mut crashed, mut cancelled) = (0, 0, 0);
        let mut sent = 0;
        while sent < calls || !pending.is_empty() {
            if sent < calls && pending.len() < AHEAD {
                let name = names[random.below(SESSIONS as u64) as usize].clone();
                let (a, b) = (random.below(1000), random.below(1000));
                let (source, timeout, expected) = match random.below(10) {
                    0 => (
                        "while true do () done".into(),
                        Some(0.05),
                        Expected::Timeout,
                    ),
                    1 => (format!("{a} + true"), None, Expected::TypeError),
                    2 => (
                        format!("List.length (List.init {a} Fun.id)"),
                        None,
                        Expected::Value(a.to_string()),
                    ),
                    _ => (
                        format!("{a} * {b}"),
                        None,
                        Expected::Value((a * b).to_string()),
                    ),
                };
                let mut arguments = json!({ "source": source, "session": name });
                if let Some(timeout) = timeout {
                    arguments["timeout"] = timeout.into();
                }
                let id = server.client.begin_call("eval", arguments);
                pending.insert(id, (name, expected));
                sent += 1;
                match random.below(60) {
                    0 => kill_one(&server, &mut random),
                    1 | 2 => {
                        let name = &names[random.below(SESSIONS as u64) as usize];
                        let params = json!({ "session": name });
                        let line = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
                        server.client.send_line(&line.to_string());
                    }
                    _ => {}
                }
                continue;
            }
            let reply = server.client.receive();
            let id = reply["id"].as_u64().expect("an id");
            let (name, expected) = pending.remove(&id).expect("one answer for each call");
            let (reply, is_error) = payload(&reply);
            answered += 1;
            let error = reply["error"].as_str().unwrap_or_default();
            if error.contains("it was cancelled") {
                cancelled += 1;
            } else if reply["phase"] == "crash" {
                crashed += 1;
                assert!(is_error && error.contains("SIGKILL"), "{name}: {reply}");
            } else {
                check(&expected, &reply, error);
            }
        }
        assert_eq!(answered, calls);
        println!(
            "{}: {crashed} killed, {cancelled} cancelled",
            executable.variant
        );
        let workers = children(server.client.child.id());
        let (rest, status) = server.client.finish();
        assert!(rest.is_empty() && status.success());
        eventually("no process is left", || {
            !workers.iter().any(|pid| exists(*pid))
        });
    });
}

fn check(expected: &Expected, reply: &Value, error: &str) {
    match expected {
        Expected::Value(value) => assert_eq!(reply["value_repr"], *value, "{reply}"),
        Expected::Timeout => assert!(error.starts_with("evaluation timed out"), "{reply}"),
        Expected::TypeError => assert!(error.contains("has type"), "{reply}"),
    }
}

/// Ends one of the workers.
fn kill_one(server: &Server, random: &mut Random) {
    let workers = children(server.client.child.id());
    let worker = workers[random.below(workers.len() as u64) as usize];
    let script = format!("kill -9 {worker}");
    let _ = Command::new("sh").args(["-c", &script]).status();
}
