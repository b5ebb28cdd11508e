//! What only a real process can show: its input, its start and its end.

use std::fs;
use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Client, each, executables};

#[test]
fn state_is_carried_between_phrases() {
    each(|executable| {
        let mut client = Client::start(executable);
        let source = "let rec fib n = if n < 2 then n else fib (n-1) + fib (n-2);; fib 20";
        let reply = client.eval(source);
        assert_eq!(reply["value_repr"], "6765");
        assert_eq!(reply["type"], "int");
        assert_eq!(reply["earlier"], json!(["val fib : int -> int = <fun>"]));
        assert_eq!(client.eval("fib 10")["value_repr"], "55");
    });
}

#[test]
fn requests_before_the_end_of_input_are_answered() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.begin_call("eval", json!({ "source": "let x = 1" }));
        // The last line lacks its line break.
        client.send_bytes(
            br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"eval","arguments":{"source":"x + 1"}}}"#,
        );
        let (replies, status) = client.finish();
        assert_eq!(replies.len(), 2);
        assert_eq!(replies[1]["id"], 7);
        assert!(status.success());
    });
}

#[test]
fn input_may_be_a_file() {
    each(|executable| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("requests");
        fs::write(
            &path,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\nbad\n",
        )
        .unwrap();
        let output = Command::new(executable.path)
            .stdin(fs::File::open(&path).unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(output.status.success());
    });
}

#[test]
fn bad_bytes_do_not_end_the_server() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.send_bytes(b"\xff\xfe\n\0\n\r\n{\"jsonrpc\n");
        for _ in 0..3 {
            assert_eq!(client.receive()["error"]["code"], -32700);
        }
        assert_eq!(client.eval("1")["value_repr"], "1");
    });
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let mut client = Client::start(executables()[0]);
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n" {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.receive()["id"], 1);
}

#[test]
fn messages_of_20_mb_pass_both_ways() {
    each(|executable| {
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_INLINE_MAX", "30000000");
        });
        let size = 20_000_000;
        let source = format!("String.length \"{}\"", "x".repeat(size));
        assert_eq!(client.eval(&source)["value_repr"], size.to_string());
        let reply = client.eval(&format!("print_string (String.make {size} 'y')"));
        assert_eq!(reply["stdout"].as_str().unwrap().len(), size);
        assert!(reply.get("stdout_overflow").is_none());
    });
}

#[test]
fn signals_end_the_server_in_the_middle_of_an_evaluation() {
    each(|executable| {
        for signal in ["TERM", "INT", "HUP"] {
            let mut client = Client::start(executable);
            client.eval("let x = 1");
            client.begin_call("eval", json!({ "source": "while true do () done" }));
            client.request("ping", json!({}));
            client.receive();
            let begun = Instant::now();
            client.signal(signal);
            assert!(client.wait().success(), "{signal}");
            assert!(begun.elapsed() < Duration::from_secs(1), "{signal}");
        }
    });
}

#[test]
fn a_client_that_vanishes_ends_the_server() {
    each(|executable| {
        let mut child = Command::new(executable.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        use std::io::Write;
        let mut input = child.stdin.take().unwrap();
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"eval","arguments":{"source":"while true do () done"}}}"#;
        writeln!(input, "{line}").unwrap();
        drop(child.stdout.take());
        drop(input);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn settings_are_checked_at_start() {
    each(|executable| {
        for (variable, value) in [
            ("TOPUP_TIMEOUT", "soon"),
            ("TOPUP_TIMEOUT", "0"),
            ("TOPUP_INLINE_MAX", "-1"),
            ("TOPUP_LOG_LEVEL", "loud"),
        ] {
            let output = Command::new(executable.path)
                .env(variable, value)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(2));
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(text.contains(variable) && text.contains(value), "{text}");
        }
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_TIMEOUT", "0.2");
        });
        let reply = client.eval("while true do () done");
        assert!(
            reply["error"]
                .as_str()
                .unwrap()
                .starts_with("evaluation timed out after 0.2 s")
        );
    });
}

#[test]
fn help_and_version_are_as_people_expect() {
    each(|executable| {
        let run = |argument| {
            Command::new(executable.path)
                .arg(argument)
                .output()
                .unwrap()
        };
        let help = String::from_utf8(run("--help").stdout).unwrap();
        assert!(help.contains("Usage") && help.contains("TOPUP_TIMEOUT"));
        let version = String::from_utf8(run("--version").stdout).unwrap();
        let name = executable.path.rsplit('/').next().unwrap();
        assert_eq!(
            version,
            format!("{name} 0.1.0 ({} toplevel)\n", executable.variant)
        );
        assert_eq!(run("--nosuch").status.code(), Some(2));
    });
}

#[test]
fn a_signal_leaves_no_command_behind() {
    each(|executable| {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let mut client = Client::start(executable);
        let command = format!("echo $$ > {}; sleep 600", pid_file.display());
        client.begin_call(
            "eval",
            json!({ "source": format!("Sys.command {command:?}") }),
        );
        let pid = loop {
            match fs::read_to_string(&pid_file) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_string(),
                _ => std::thread::yield_now(),
            }
        };
        client.signal("TERM");
        client.wait();
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    });
}

#[test]
fn a_start_that_fails_says_why() {
    each(|executable| {
        // No descriptor above the numbers that user code may have.
        let script = format!("ulimit -n 60; exec {}", executable.path);
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("topup: "), "{text:?}");
    });
}

#[test]
fn an_orphan_ends_though_somebody_could_still_listen() {
    each(|executable| {
        let directory = tempfile::tempdir().unwrap();
        let started = directory.path().join("started");
        let source = format!("close_out (open_out {:?});; while true do () done", started);
        let call = json!({ "name": "eval", "arguments": { "source": source } });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
        let requests = directory.path().join("requests");
        fs::write(&requests, request.to_string()).unwrap();
        // Its output is a file, which never hangs up. The shell that started it ends when
        // we close its input.
        let script = format!(
            "{} < {} > /dev/null & echo $!; read line",
            executable.path,
            requests.display()
        );
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pid = String::new();
        std::io::BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut pid)
            .unwrap();
        while !started.exists() {
            std::thread::yield_now();
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
    });
}

#[test]
fn children_do_not_inherit_an_ignored_sigpipe() {
    each(|executable| {
        let archive = match executable.variant {
            "native" => "unix.cmxs",
            _ => "unix.cma",
        };
        let mut client = Client::start(executable);
        client.eval(&format!("#directory \"+unix\";; #load \"{archive}\""));
        let reply = client.eval(
            "let ic = Unix.open_process_in \"yes | head -1\" in \
             let line = input_line ic in ignore (Unix.close_process_in ic); line",
        );
        assert_eq!(reply["value_repr"], "\"y\"", "{reply}");
        assert_eq!(reply["stderr"], "");
    });
}

#[test]
fn a_toolchain_that_is_not_there_is_said_to_be() {
    for verb in ["find", "get"] {
        let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/toolchain"))
            .arg(verb)
            .env("TOPUP_OCAML", "/nonexistent")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("TOPUP_OCAML=/nonexistent"), "{text}");
    }
}
