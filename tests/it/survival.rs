//! User code that would end the process: it costs one reply, which says so.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, assert_timed_out, each, executables, payload, toolchain};

/// Why a phrase would end the process, what makes it possible, the phrase, and the signal
/// that the reply names; none for an end without.
const ENDS: [(&str, &str, &str, Option<&str>); 8] = [
    (
        "a pointer that is none",
        "",
        "print_int (String.length (Obj.magic 3 : string ref).contents)",
        Some("SIGSEGV"),
    ),
    ("_exit", "#require \"unix\"", "Unix._exit 3", None),
    (
        "SIGUSR1",
        "#require \"unix\"",
        "Unix.kill (Unix.getpid ()) Sys.sigusr1",
        Some("SIGUSR1"),
    ),
    (
        "SIGTERM",
        "#require \"unix\"",
        "Unix.kill (Unix.getpid ()) Sys.sigterm",
        Some("SIGTERM"),
    ),
    (
        "SIGHUP",
        "#require \"unix\"",
        "Unix.kill (Unix.getpid ()) Sys.sighup",
        Some("SIGHUP"),
    ),
    (
        "SIGQUIT",
        "#require \"unix\"",
        "Unix.kill (Unix.getpid ()) Sys.sigquit",
        Some("SIGQUIT"),
    ),
    (
        "SIGABRT",
        "#require \"unix\"",
        "Unix.kill (Unix.getpid ()) Sys.sigabrt",
        Some("SIGABRT"),
    ),
    (
        "SIGALRM",
        "#require \"unix\"",
        "ignore (Unix.alarm 1); Unix.sleep 30",
        Some("SIGALRM"),
    ),
];

fn descriptors(client: &Client) -> usize {
    let folder = format!("/proc/{}/fd", client.child.id());
    fs::read_dir(folder).expect("a process").count()
}

fn assert_crashed(reply: &Value, signal: Option<&str>) {
    assert_eq!(reply["phase"], "crash", "{reply}");
    assert_eq!(reply["signal"].as_str(), signal, "{reply}");
    assert!(
        reply["error"].as_str().unwrap().contains("topup goes on"),
        "{reply}"
    );
}

#[test]
fn an_end_of_the_process_costs_one_reply() {
    each(|executable| {
        for (what, needs, phrase, signal) in ENDS {
            let mut client = Client::start(executable);
            client.request("initialize", json!({ "protocolVersion": "2025-06-18" }));
            client.receive();
            client.eval("let x = 41 let r = ref 1;; r := 7");
            client.eval(needs);
            let before = descriptors(&client);
            // What follows in the same moment is served by the next image.
            let lines = [
                client.call_line("eval", json!({ "source": phrase })),
                client.call_line("eval", json!({ "source": "x + 1" })),
                client.call_line("env", json!({})),
            ];
            client.send_bytes((lines.join("\n") + "\n").as_bytes());
            let (reply, is_error) = payload(&client.receive());
            assert!(is_error, "{what}: {reply}");
            assert_crashed(&reply, signal);
            let (reply, _) = payload(&client.receive());
            assert_eq!(reply["value_repr"], "42", "{what}: {reply}");
            assert!(
                reply["notice"].as_str().unwrap().contains("restored"),
                "{what}: {reply}"
            );
            let (reply, _) = payload(&client.receive());
            assert_eq!(reply["total"], 2, "{what}: {reply}");
            assert_eq!(client.eval("!r")["value_repr"], "7", "{what}");
            assert!(client.eval("!r").get("notice").is_none(), "it is said once");
            // The same process, and nothing piles up in it.
            assert!(client.child.try_wait().expect("asked").is_none(), "{what}");
            assert!(
                descriptors(&client) <= before + 1,
                "{what}: {before} descriptors before"
            );
            // The handshake holds.
            let tools = {
                client.request("tools/list", json!({}));
                client.receive()
            };
            assert!(tools["result"]["tools"][0]["title"].is_string(), "{what}");
            let (rest, status) = client.finish();
            assert!(rest.is_empty() && status.success(), "{what}: {status}");
        }
    });
}

#[test]
fn exit_ends_the_evaluation_only() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let x = ref 1;; at_exit (fun () -> print_string \"bye\")");
        let reply = client.eval("x := 2; exit 3");
        assert!(
            reply["error"].as_str().unwrap().starts_with("exit 3"),
            "{reply}"
        );
        assert_eq!(reply["diagnostics"][0]["kind"], "exit", "{reply}");
        assert_eq!(reply["stdout"], "bye");
        assert_eq!(client.eval("!x")["value_repr"], "2");
        let reply = client.eval("at_exit (fun () -> exit 5);; exit 4");
        assert!(
            reply["error"].as_str().unwrap().starts_with("exit "),
            "{reply}"
        );
        let reply = client.eval("at_exit (fun () -> failwith \"late\");; exit 0");
        assert!(reply["error"].as_str().unwrap().contains("late"), "{reply}");
        assert_eq!(client.eval("!x + 1")["value_repr"], "3");
        // A child that was forked does end.
        client.eval("#require \"unix\"");
        let reply =
            client.eval("match Unix.fork () with 0 -> exit 7 | pid -> snd (Unix.waitpid [] pid)");
        assert_eq!(reply["value_repr"], "Unix.WEXITED 7", "{reply}");
        let reply = client
            .eval("match Unix.fork () with 0 -> Unix._exit 8 | pid -> snd (Unix.waitpid [] pid)");
        assert_eq!(reply["value_repr"], "Unix.WEXITED 8", "{reply}");
    });
}

#[test]
fn what_was_printed_and_read_is_not_lost() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let x = 1");
        let crash = client.call_line(
            "eval",
            json!({ "source": "print_string \"printed\"; flush stdout; prerr_endline \"said\"; print_int (String.length (Obj.magic 3 : string ref).contents)" }),
        );
        let next = client.call_line("eval", json!({ "source": "x + 1" }));
        // The second request is half there when the process ends.
        let (first, second) = next.split_at(next.len() / 2);
        client.send_bytes(format!("{crash}\n{first}").as_bytes());
        let (reply, _) = payload(&client.receive());
        assert_crashed(&reply, Some("SIGSEGV"));
        assert_eq!(
            (&reply["stdout"], &reply["stderr"]),
            (&json!("printed"), &json!("said\n"))
        );
        client.send_bytes(format!("{second}\n").as_bytes());
        assert_eq!(payload(&client.receive()).0["value_repr"], "2");
        // Input that has ended meanwhile.
        client.begin_call(
            "eval",
            json!({ "source": "String.length (Obj.magic 3 : string ref).contents" }),
        );
        client.begin_call("eval", json!({ "source": "x + 2" }));
        let (rest, status) = client.finish();
        assert_eq!(rest.len(), 2);
        assert_eq!(payload(&rest[1]).0["value_repr"], "3");
        assert!(status.success());
    });
}

#[test]
fn what_user_code_changed_of_the_process_is_as_it_was() {
    let mut client = Client::start(crate::support::BYTECODE);
    let directory = client.eval("Sys.getcwd ()")["value_repr"].clone();
    client.eval("#require \"unix\"");
    client.eval("Unix.putenv \"HOME\" \"/nowhere\";; Unix.putenv \"TOPUP_LOG\" \"off\"");
    client.eval("let () = Sys.chdir \"/\";; failwith \"so that it is not in the log\"");
    assert_crashed(&client.eval("Unix._exit 1"), None);
    // The log's phrases ran again in the folder where the server began.
    let reply = client.eval("Sys.getcwd ()");
    assert_eq!(reply["value_repr"], "\"/\"", "{reply}");
    assert!(client.call("checkpoint", json!({ "label": "survival" })).0["phrases"].is_u64());
    client.call("reset", json!({}));
    assert_eq!(client.eval("Sys.getcwd ()")["value_repr"], directory);
}

#[test]
fn a_phrase_that_crashes_the_replay_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let flag = folder.path().join("flag");
    each(|executable| {
        let _ = fs::remove_file(&flag);
        let log = folder.path().join(format!("{}.ml", executable.variant));
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_LOG", &log);
        });
        client.eval("let a = 1");
        let crashing = format!(
            "let b = if Sys.file_exists {:?} then String.length (Obj.magic 3 : string ref).contents else 2",
            flag.display()
        );
        assert_eq!(client.eval(&crashing)["value_repr"], "2");
        client.eval("let c = 3");
        fs::write(&flag, "").unwrap();
        assert_crashed(
            &client.eval("String.length (Obj.magic 3 : string ref).contents"),
            Some("SIGSEGV"),
        );
        let reply = client.eval("a + c");
        assert_eq!(reply["value_repr"], "4", "{reply}");
        let notice = reply["notice"].as_str().unwrap();
        assert!(notice.contains("not restored: phrase 2"), "{notice}");
        assert!(client.eval("b")["error"].is_string());
        // The log is what the session is; the old one is kept.
        assert_eq!(
            fs::read_to_string(&log).unwrap(),
            "let a = 1;;\nlet c = 3;;\na + c;;\n"
        );
        assert!(
            fs::read_to_string(folder.path().join(format!("{}.ml.1", executable.variant)))
                .unwrap()
                .contains("let b = if")
        );
    });
}

#[test]
fn the_third_end_in_a_minute_begins_afresh() {
    let mut client = Client::start(crate::support::BYTECODE);
    client.eval("let a = 1");
    for time in 1..=3 {
        assert_crashed(
            &client.eval("String.length (Obj.magic 3 : string ref).contents"),
            Some("SIGSEGV"),
        );
        let reply = client.eval("a");
        let notice = reply["notice"].as_str().unwrap();
        match time {
            3 => assert!(
                reply["error"].is_string() && notice.contains("starts empty"),
                "{reply}"
            ),
            _ => assert!(
                reply["value_repr"] == "1" && notice.contains("restored"),
                "{reply}"
            ),
        }
    }
    assert_eq!(client.eval("1 + 1")["value_repr"], "2");
}

#[test]
fn what_nothing_interrupts_is_ended_in_a_stronger_way() {
    if toolchain("version").starts_with('4') {
        return;
    }
    // On OCaml 5 even loops that do not allocate are interrupted; waiting for a domain is not.
    for executable in executables() {
        let source = "Domain.join (Domain.spawn (fun () -> while true do () done))";
        let mut client = Client::start(executable);
        client.eval("let x = 41");
        let begun = Instant::now();
        let reply = client.eval_within(source, 0.3);
        assert_timed_out(&reply);
        assert_eq!(reply["phase"], "crash", "{reply}");
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it takes its time"
        );
        let reply = client.eval("x + 1");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        assert!(reply["notice"].is_string(), "{reply}");
    }
}

#[test]
fn memory_has_a_limit() {
    each(|executable| {
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_MEMORY_MAX", (300 << 20).to_string());
        });
        client.eval("let x = 41");
        let hoard = "let l = ref [] in while true do l := Bytes.make 100_000 'x' :: !l done";
        let reply = client.eval(hoard);
        assert!(
            reply["error"]
                .as_str()
                .unwrap()
                .contains("more than 300 MB in memory"),
            "{reply}"
        );
        assert_eq!(reply["diagnostics"][0]["kind"], "memory", "{reply}");
        // What was hoarded is garbage, and is used again.
        for _ in 0..3 {
            assert!(client.eval(hoard)["error"].is_string());
            assert_eq!(client.eval("Gc.compact ();; x + 1")["value_repr"], "42");
        }
        assert!(client.resident() < 600.0, "{} MB", client.resident());
        // One call that takes it all at once, and cannot be interrupted.
        let reply = client.eval("Bytes.length (Bytes.make 3_000_000_000 'x')");
        let said = reply.to_string();
        assert!(
            said.contains("300 MB") || reply["value_repr"] == "3000000000",
            "{reply}"
        );
        for impossible in ["Bytes.create max_int", "Array.make max_int 0"] {
            assert!(client.eval(impossible)["error"].is_string());
        }
        assert_eq!(client.eval("x + 1")["value_repr"], "42");
    });
}

#[test]
fn signals_from_outside_do_what_they_always_do() {
    for (signal, number) in [("USR1", 10), ("QUIT", 3), ("SEGV", 11)] {
        let mut client = Client::start(crate::support::BYTECODE);
        client.eval("1");
        client.signal(signal);
        let status = client.wait();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(number),
            "{signal}"
        );
    }
}

#[test]
fn a_crash_between_evaluations_is_told_with_the_next() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let x = 41");
        client.eval("#thread;; #require \"threads.posix\"");
        let pid = client.child.id();
        client.eval("let t = Thread.create (fun () -> Thread.delay 0.2; print_int (String.length (Obj.magic 3 : string ref).contents)) ();; failwith \"not in the log\"");
        // A new image has other memory files than the old one.
        let maps = || fs::read_link(format!("/proc/{pid}/fd/1")).ok();
        let before = maps();
        let limit = Instant::now() + Duration::from_secs(30);
        while maps() == before {
            assert!(Instant::now() < limit, "nothing has crashed");
            std::thread::sleep(Duration::from_millis(10));
        }
        let reply = client.eval("x + 1");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        assert!(
            reply["notice"].as_str().unwrap().contains("SIGSEGV"),
            "{reply}"
        );
    });
}

#[test]
fn commands_of_a_crashed_evaluation_are_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let mut client = Client::start(crate::support::BYTECODE);
    client.eval("#require \"threads.posix\"");
    client.eval(&format!(
        "let t = Thread.create (fun () -> while not (Sys.file_exists {0:?}) do Thread.delay 0.01 done; print_int (String.length (Obj.magic 3 : string ref).contents)) ();; Sys.command \"sleep 600 & echo $! >{1}.new; mv {1}.new {1}; wait\"",
        pid.display(),
        pid.display()
    ));
    let child = fs::read_to_string(&pid).expect("the command began");
    let limit = Instant::now() + Duration::from_secs(30);
    let lives = || {
        Command::new("sh")
            .args(["-c", &format!("kill -0 {}", child.trim())])
            .status()
            .is_ok_and(|s| s.success())
    };
    while lives() {
        assert!(Instant::now() < limit, "the command goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(client.eval("1 + 1")["value_repr"], "2");
}
