//! What other servers were reported for: where each failure is tested, and the tests that have
//! no better place.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, Executable, each};

/// The right behaviour, and the tests that hold us to it.
const REPORTS: [(&str, &[&str]); 9] = [
    (
        "only messages on the protocol's output",
        &["the_wire_stays_clean", "a_request_in_wait_is_nobodys_input"],
    ),
    (
        "children and user code do not eat the protocol's input",
        &["the_wire_stays_clean", "a_request_in_wait_is_nobodys_input"],
    ),
    (
        "no orphan, neither us nor our children",
        &[
            "a_client_that_vanishes_ends_the_server",
            "a_client_that_vanishes_ends_the_commands",
            "an_orphan_ends_though_somebody_could_still_listen",
            "a_signal_leaves_no_command_behind",
        ],
    ),
    (
        "a request right before the end of input is answered",
        &[
            "requests_before_the_end_of_input_are_answered",
            "input_that_ends_is_answered_to_the_last_request",
        ],
    ),
    (
        "an output that nobody reads ends the server, silently",
        &["a_client_that_only_stops_reading_ends_the_server"],
    ),
    (
        "signals end the server within a second",
        &[
            "signals_end_the_server_in_the_middle_of_an_evaluation",
            "a_second_signal_does_no_harm",
        ],
    ),
    (
        "no bad byte or line ends the server",
        &[
            "bad_bytes_do_not_end_the_server",
            "a_message_may_come_byte_by_byte",
            "bad_lines_get_one_error_each",
        ],
    ),
    (
        "long messages pass both ways",
        &["messages_of_20_mb_pass_both_ways"],
    ),
    (
        "argument errors are results",
        &["bad_arguments_are_results_that_name_the_field"],
    ),
];

#[test]
fn every_report_has_its_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let sources = text_below(&tests);
    for (behaviour, tests) in REPORTS {
        for test in tests {
            let function = format!("#[test]\nfn {test}()");
            assert!(sources.contains(&function), "{behaviour}: no test {test}");
        }
    }
}

fn text_below(path: &Path) -> String {
    if !path.is_dir() {
        return fs::read_to_string(path).expect("text");
    }
    let files = fs::read_dir(path).expect("the tests");
    files
        .map(|file| text_below(&file.expect("a file").path()))
        .collect()
}

#[test]
fn a_request_in_wait_is_nobodys_input() {
    each(|executable| {
        let mut client = Client::start(executable);
        let reader = "Sys.command \"sleep 0.2; cat; cat <&0 >&1\"";
        client.begin_call("eval", json!({ "source": reader }));
        let read = "try input_line stdin with End_of_file -> \"nothing\"";
        client.begin_call("eval", json!({ "source": read }));
        client.request("ping", json!({}));
        let replies: Vec<Value> = (0..3).map(|_| client.receive()).collect();
        let mut ids: Vec<_> = replies.iter().map(|reply| reply["id"].as_u64()).collect();
        ids.sort();
        assert_eq!(ids, [Some(1), Some(2), Some(3)]);
        let text = format!("{replies:?}");
        assert!(text.contains("nothing"), "{text}");
    });
}

/// A server whose pipes can be closed one by one.
fn start(executable: Executable) -> Child {
    Command::new(executable.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("TOPUP_LOG", "off")
        .spawn()
        .expect("the executable starts")
}

fn say(child: &mut Child, id: u64, source: &str) {
    let params = json!({ "name": "eval", "arguments": { "source": source } });
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let input = child.stdin.as_mut().expect("input is open");
    writeln!(input, "{line}").expect("written");
}

/// How the server ended, within five seconds. `Child::wait` would close its input first.
fn ended(child: &mut Child) -> ExitStatus {
    let limit = Instant::now() + Duration::from_secs(5);
    loop {
        if let Some(status) = child.try_wait().expect("waited") {
            return status;
        }
        if Instant::now() > limit {
            let _ = child.kill();
            panic!("the server goes on");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_only_stops_reading_ends_the_server() {
    each(|executable| {
        let mut child = start(executable);
        drop(child.stdout.take());
        say(&mut child, 1, "1 + 1");
        // Its input is still open.
        assert!(ended(&mut child).success());
        let mut said = String::new();
        let mut errors = child.stderr.take().expect("stderr is piped");
        errors.read_to_string(&mut said).expect("text");
        assert_eq!(said, "");
    });
}

#[test]
fn a_client_that_vanishes_ends_the_commands() {
    each(|executable| {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let mut child = start(executable);
        let command = format!("echo $$ > {}; sleep 600", pid_file.display());
        say(&mut child, 1, &format!("Sys.command {command:?}"));
        let pid = loop {
            match fs::read_to_string(&pid_file) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_string(),
                _ => std::thread::yield_now(),
            }
        };
        drop(child.stdout.take());
        drop(child.stdin.take());
        let begun = Instant::now();
        assert!(child.wait().unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(2));
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    });
}

#[test]
fn a_second_signal_does_no_harm() {
    each(|executable| {
        for signal in ["TERM", "INT", "HUP"] {
            let mut client = Client::start(executable);
            client.eval("let x = 1");
            client.begin_call("eval", json!({ "source": "while true do () done" }));
            client.signal(signal);
            let script = format!("kill -s {signal} {} 2>/dev/null", client.child.id());
            let _ = Command::new("sh").args(["-c", &script]).status();
            let begun = Instant::now();
            client.wait();
            assert!(begun.elapsed() < Duration::from_secs(1), "{signal}");
        }
    });
}
