//! What only a real process can show: descriptors, signals, the end of things.

use std::fs;
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Client, Executable, executables};

fn each(test: impl Fn(Executable)) {
    executables().into_iter().for_each(test);
}

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
fn a_timeout_leaves_the_session_with_its_bindings() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let kept = 42");
        let reply = client.eval_within("while true do () done", 0.5);
        assert!(
            reply["error"]
                .as_str()
                .unwrap()
                .starts_with("evaluation timed out"),
            "{reply}"
        );
        assert_eq!(reply["diagnostics"][0]["kind"], "timeout");
        assert_eq!(client.eval("kept")["value_repr"], "42");
    });
}

#[test]
fn the_wire_stays_clean() {
    each(|executable| {
        let mut client = Client::start(executable);
        let source = r#"print_string "a"; prerr_string "b"; ignore (Sys.command "echo c"); 1"#;
        let reply = client.eval(source);
        assert_eq!(reply["stdout"], "ac\n");
        assert_eq!(reply["stderr"], "b");
        // Nothing of the protocol is readable by user code or its children.
        assert_eq!(client.eval("Sys.command \"cat; read x\"")["stdout"], "");
        assert_eq!(
            client.eval("input_line stdin")["diagnostics"][0]["kind"],
            "exception"
        );
        // A command inherits what topup inherited and nothing that topup opened.
        let count = "ls /proc/self/fd | wc -l";
        let plain = Command::new("sh")
            .args(["-c", count])
            .output()
            .unwrap()
            .stdout;
        let ours = client.eval(&format!("Sys.command {count:?}"));
        assert_eq!(ours["stdout"], String::from_utf8(plain).unwrap());
        let (rest, status) = client.finish();
        assert!(rest.is_empty() && status.success());
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
            client.signal(signal);
            assert!(client.wait().success(), "{signal}");
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
fn a_late_interrupt_never_meets_the_next_evaluation() {
    each(|executable| {
        let mut client = Client::start(executable);
        // Ends by itself at about the time of its limit, before or after.
        let busy = "let t = Sys.time () in while Sys.time () -. t < 0.02 do () done";
        for round in 0..40 {
            client.eval_within(busy, 0.015 + f64::from(round % 10) / 1000.0);
            let reply = client.eval(&format!("List.length (List.init {round} Fun.id)"));
            assert_eq!(reply["value_repr"], round.to_string(), "{reply}");
        }
    });
}

#[test]
fn runaway_output_is_stopped() {
    each(|executable| {
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_OUTPUT_MAX", "100000000");
        });
        client.eval("let kept = 1");
        let before = client.resident();
        let reply = client.eval("while true do print_string \"runaway output \" done");
        assert!(
            reply["error"].as_str().unwrap().contains("100000000 bytes"),
            "{reply}"
        );
        // Megabytes: the output is in the file, not in memory.
        assert!(client.resident() < before + 20.0);
        assert_eq!(reply["diagnostics"][0]["kind"], "output");
        let spilled = reply["stdout_overflow"].as_str().expect("it is kept");
        assert!(fs::metadata(spilled).unwrap().len() > 100_000_000);
        fs::remove_file(spilled).unwrap();
        assert_eq!(client.eval("kept")["value_repr"], "1");
    });
}

#[test]
fn long_fields_are_cut_and_kept_whole_in_a_file() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let mut client = Client::start_with(executable, |command| {
            command
                .env("TOPUP_INLINE_MAX", "100")
                .env("HOME", home.path());
        });
        let reply = client.eval(
            "prerr_string (String.make 101 'e'); \
             print_string (String.concat \"\" (List.init 99 (fun _ -> \"é\"))); String.make 150 'v'",
        );
        for (field, whole) in [
            ("stdout", "é".repeat(99)),
            ("stderr", "e".repeat(101)),
            ("value_repr", format!("\"{}\"", "v".repeat(150))),
        ] {
            let path = reply[format!("{field}_overflow")].as_str().expect(field);
            assert_eq!(fs::read_to_string(path).unwrap(), whole);
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o600
            );
            assert!(std::path::Path::new(path).starts_with(home.path().join(".topup/overflow")));
            let inline = reply[field].as_str().unwrap();
            let (head, marker) = inline.split_once("…[+").expect("a marker");
            assert!(whole.starts_with(head) && head.len() <= 100);
            let missing = whole.len() - head.len();
            assert_eq!(marker, format!("{missing} bytes; full at {path}]"));
        }
        // Exactly at the limit nothing is cut.
        let reply = client.eval("print_string (String.make 100 'o')");
        assert_eq!(reply["stdout"], "o".repeat(100));
        assert!(reply.get("stdout_overflow").is_none());
        // Output that begins inside the capture file is copied out of it.
        let reply = client.eval("print_string (String.make 101 'p')");
        let path = reply["stdout_overflow"].as_str().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "p".repeat(101));
    });
}

#[test]
fn spilled_files_are_pruned() {
    let home = tempfile::tempdir().unwrap();
    let mut client = Client::start_with(executables()[0], |command| {
        command
            .env("TOPUP_INLINE_MAX", "10")
            .env("HOME", home.path());
    });
    for _ in 0..110 {
        client.eval("print_string (String.make 11 'x')");
    }
    let kept = fs::read_dir(home.path().join(".topup/overflow"))
        .unwrap()
        .count();
    assert_eq!(kept, 100);
}

#[test]
fn a_home_that_cannot_be_written_costs_only_the_spilled_file() {
    each(|executable| {
        let mut client = Client::start_with(executable, |command| {
            command
                .env("TOPUP_INLINE_MAX", "10")
                .env("HOME", "/proc/nowhere");
        });
        let reply = client.eval("print_string (String.make 50 'x'); 1");
        assert_eq!(reply["value_repr"], "1");
        assert!(
            reply["stdout"]
                .as_str()
                .unwrap()
                .starts_with("xxxxxxxxxx…[+40 bytes; not kept")
        );
    });
}

#[test]
fn later_output_of_the_background_is_not_lost() {
    each(|executable| {
        let mut client = Client::start(executable);
        let reply = client.eval("Sys.command \"(sleep 0.3; echo late) &\"");
        assert_eq!(reply["stdout"], "");
        // A child's child writes when it likes; ask until it has.
        let late = (0..100).any(|_| {
            let stdout = client.eval("Sys.command \"sleep 0.05\"")["stdout"].clone();
            assert!(stdout == "" || stdout == "late\n");
            stdout == "late\n"
        });
        assert!(late);
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
fn user_code_cannot_take_the_interrupt_away() {
    each(|executable| {
        for trick in [
            "Sys.set_signal Sys.sigint Sys.Signal_default",
            "Sys.set_signal Sys.sigint Sys.Signal_ignore",
            "Sys.set_signal Sys.sigint (Sys.Signal_handle ignore)",
            "Sys.catch_break true",
            "Sys.catch_break false",
            "ignore (Sys.signal 2 Sys.Signal_ignore)",
        ] {
            let mut client = Client::start(executable);
            let reply = client.eval_within(&format!("{trick};; while true do () done"), 0.2);
            let error = reply["error"].as_str().unwrap();
            assert!(
                error.starts_with("evaluation timed out"),
                "{trick}: {reply}"
            );
            assert_eq!(reply["diagnostics"][0]["kind"], "timeout");
        }
        // Other signals are the user's.
        let mut client = Client::start(executable);
        client.eval("let got = ref false;; Sys.set_signal Sys.sigusr1 (Sys.Signal_handle (fun _ -> got := true))");
        client.eval("Sys.command \"kill -USR1 $PPID\"");
        assert_eq!(client.eval("!got")["value_repr"], "true");
    });
}

#[test]
fn an_interrupted_printer_is_a_timeout() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("type t = T;; let pp _ T = while true do () done;; #install_printer pp");
        let reply = client.eval_within("let v = T;; print_string \"after\"", 0.2);
        assert!(
            reply["error"]
                .as_str()
                .unwrap()
                .starts_with("evaluation timed out"),
            "{reply}"
        );
        assert_eq!(reply["stdout"], "");
        let reply = client.eval("#remove_printer pp;; v");
        assert_eq!(reply["value_repr"], "T", "the phrase itself was done");
    });
}

#[test]
fn an_interrupt_does_not_hurt_the_compiler() {
    each(|executable| {
        let rounds = if executable.variant == "native" {
            20
        } else {
            60
        };
        let mut client = Client::start(executable);
        let functions: String = (0..60)
            .map(|n| format!("let f{n} x = List.map (fun y -> (x, y + {n})) [1; 2]\n"))
            .collect();
        let source = format!("module M = struct {functions} end;; let _ = 1 + true");
        for round in 0..rounds {
            let reply = client.eval_within(&source, 0.001 * f64::from(round % 12 + 1));
            let error = reply["error"].as_str().unwrap();
            let expected = error.starts_with("evaluation timed out") || error.contains("Error: ");
            assert!(expected && !error.contains("raised"), "{reply}");
            assert_eq!(client.eval("let z = 1")["type"], "int");
        }
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
        let output = Command::new(executable.path)
            .env("TMPDIR", "/nonexistent")
            .env("HOME", "/proc")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("topup: "), "{text:?}");
    });
}

#[test]
fn every_long_text_is_cut() {
    each(|executable| {
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_INLINE_MAX", "200");
        });
        let wide = format!("(assert false : {})", vec!["int"; 300].join(" * "));
        let reply = client.eval(&format!("let f () = {wide};; f () + 1"));
        for text in [
            &reply["error"],
            &reply["earlier"][0],
            &reply["diagnostics"][0]["message"],
        ] {
            let text = text.as_str().unwrap();
            assert!(
                text.contains("bytes; full at ") && text.len() < 400,
                "{text}"
            );
        }
    });
}

#[test]
fn native_phrases_leave_no_files() {
    for executable in executables().into_iter().filter(|e| e.variant == "native") {
        let directory = tempfile::tempdir().unwrap();
        let mut client = Client::start_with(executable, |command| {
            command.env("TMPDIR", directory.path());
        });
        client.eval("let x = 1;; failwith \"no\"");
        client.eval("x + true");
        let missing = client.eval("external gone : unit -> unit = \"no_such_symbol\";; gone ()");
        assert!(
            missing["error"]
                .as_str()
                .unwrap()
                .contains("Hint: A library"),
            "{missing}"
        );
        client.begin_call(
            "eval",
            json!({ "source": "print_string \"in\"; while true do () done" }),
        );
        let listed = |directory: &std::path::Path| fs::read_dir(directory).unwrap().count();
        // The file is there until the code runs; then it never comes back.
        while listed(directory.path()) > 0 {
            std::thread::yield_now();
        }
        client.signal("KILL");
        client.wait();
        assert_eq!(listed(directory.path()), 0);
    }
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
