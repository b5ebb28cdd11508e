//! What user code prints: whose it is, where it goes, how much of it a reply shows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::support::{Client, each, executables};

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
        let elsewhere = tempfile::tempdir().unwrap();
        let running = elsewhere.path().join("running");
        let source = format!("close_out (open_out {running:?}); while true do () done");
        client.begin_call("eval", json!({ "source": source }));
        while !running.exists() {
            std::thread::yield_now();
        }
        client.signal("KILL");
        client.wait();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
