//! What ends a process: exits of every kind, and faults.

use std::fs;

use serde_json::json;

use super::cases::{CRASH, Case, HARM, Reply, THREADS, UNIX, assert_crashed, run};
use super::session::each;
use crate::support::payload;

#[test]
fn an_exit_costs_one_reply() {
    run(&[
        Case {
            what: "exit",
            needs: &[],
            source: "exit 3",
            reply: Reply::Error("exit 3"),
        },
        Case {
            what: "exit in at_exit",
            needs: &[],
            source: "at_exit (fun () -> Stdlib.exit 4);; exit 0",
            reply: Reply::Error("exit 4"),
        },
        Case {
            what: "an exception in at_exit",
            needs: &[],
            source: "at_exit (fun () -> failwith \"late\");; exit 0",
            reply: Reply::Error("late"),
        },
        Case {
            what: "Unix._exit",
            needs: &[UNIX],
            source: "Unix._exit 3",
            reply: Reply::Crash(None),
        },
        Case {
            what: "C's exit",
            needs: &[HARM],
            source: "Harm.exit 3",
            reply: Reply::Crash(None),
        },
        Case {
            what: "C's _Exit",
            needs: &[HARM],
            source: "Harm.exit_at_once 3",
            reply: Reply::Crash(None),
        },
        Case {
            what: "C's quick_exit",
            needs: &[HARM],
            source: "Harm.quick_exit 3",
            reply: Reply::Crash(None),
        },
        Case {
            what: "the end of the toplevel's thread",
            needs: &[HARM],
            source: "Harm.thread_exit ()",
            reply: Reply::Crash(None),
        },
    ]);
}

#[test]
fn a_fault_costs_one_reply() {
    run(&[
        Case {
            what: "a pointer that is none",
            needs: &[],
            source: CRASH,
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "a page that is not there",
            needs: &[HARM],
            source: "Harm.bus ()",
            reply: Reply::Crash(Some("SIGBUS")),
        },
        Case {
            what: "abort",
            needs: &[HARM],
            source: "Harm.abort ()",
            reply: Reply::Crash(Some("SIGABRT")),
        },
        Case {
            what: "memory that is freed twice",
            needs: &[HARM],
            source: "Harm.free_twice ()",
            reply: Reply::Crash(Some("SIGABRT")),
        },
        Case {
            what: "a thread of user code",
            needs: &[THREADS],
            source: "Thread.join (Thread.create (fun () -> print_int (String.length (Obj.magic 3 : string ref).contents)) ())",
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "a thread that blocks every signal",
            needs: &[THREADS, HARM],
            source: "Thread.join (Thread.create (fun () -> Harm.mask_all (); print_int (String.length (Obj.magic 3 : string ref).contents)) ())",
            reply: Reply::Crash(Some("SIGSEGV")),
        },
    ]);
}

#[test]
fn what_at_exit_does_is_done() {
    each(|mut session| {
        session.prepare("let x = ref 1;; at_exit (fun () -> print_string \"bye\")");
        let reply = session.eval("x := 2; exit 3");
        assert_eq!(reply["diagnostics"][0]["kind"], "exit", "{reply}");
        assert_eq!(reply["stdout"], "bye");
        assert_eq!(session.eval("!x")["value_repr"], "2");
        session.end();
    });
}

#[test]
fn what_was_sent_in_the_same_moment_is_served_by_the_next_image() {
    each(|mut session| {
        let client = &mut session.client;
        client.request("initialize", json!({ "protocolVersion": "2025-06-18" }));
        client.receive();
        client.eval("let x = 41 let r = ref 1;; r := 7");
        let lines = [
            client.call_line("eval", json!({ "source": CRASH })),
            client.call_line("eval", json!({ "source": "x + 1" })),
            client.call_line("env", json!({})),
        ];
        client.send_bytes((lines.join("\n") + "\n").as_bytes());
        assert_crashed(&payload(&client.receive()).0, Some("SIGSEGV"), "");
        assert_eq!(payload(&client.receive()).0["value_repr"], "42");
        assert_eq!(payload(&client.receive()).0["total"], 2);
        assert!(client.eval("!r").get("notice").is_none(), "it is said once");
        // The handshake holds.
        client.request("tools/list", json!({}));
        assert!(client.receive()["result"]["tools"][0]["title"].is_string());
        session.end();
    });
}

#[test]
fn what_was_printed_and_read_is_not_lost() {
    each(|mut session| {
        let client = &mut session.client;
        client.eval("let x = 1");
        let source =
            format!("print_string \"printed\"; flush stdout; prerr_endline \"said\"; {CRASH}");
        let crash = client.call_line("eval", json!({ "source": source }));
        let next = client.call_line("eval", json!({ "source": "x + 1" }));
        // The second request is half there when the process ends.
        let (first, second) = next.split_at(next.len() / 2);
        client.send_bytes(format!("{crash}\n{first}").as_bytes());
        let (reply, _) = payload(&client.receive());
        assert_crashed(&reply, Some("SIGSEGV"), "");
        assert_eq!(
            (&reply["stdout"], &reply["stderr"]),
            (&json!("printed"), &json!("said\n"))
        );
        client.send_bytes(format!("{second}\n").as_bytes());
        assert_eq!(payload(&client.receive()).0["value_repr"], "2");
        // Input that has ended meanwhile.
        client.begin_call("eval", json!({ "source": CRASH }));
        client.begin_call("eval", json!({ "source": "x + 2" }));
        let (rest, status) = session.client.finish();
        assert_eq!(rest.len(), 2);
        assert_eq!(payload(&rest[1]).0["value_repr"], "3");
        assert!(status.success());
    });
}

/// What user code opened, and lets its programs have, ends with the image.
#[test]
fn descriptors_of_user_code_end_with_the_image() {
    each(|mut session| {
        session.prepare(UNIX);
        let before = session.descriptors();
        let open = "for _ = 1 to 50 do ignore (Unix.openfile \"/dev/null\" [] 0) done";
        assert_crashed(&session.eval(&format!("{open}; Unix._exit 1")), None, "");
        session.prepare("1");
        let after = session.descriptors();
        assert!(after <= before + 1, "{before} descriptors, then {after}");
        session.end();
    });
}

#[test]
fn no_file_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    each(|session| {
        let executable = session.executable;
        session.end();
        let path = folder.path().to_str().expect("text");
        let mut session = super::session::Session::with(executable, &[("TMPDIR", path)]);
        session.prepare("let x = 1");
        assert_crashed(&session.eval(CRASH), Some("SIGSEGV"), "");
        session.prepare("x");
        session.end();
        let left: Vec<_> = fs::read_dir(folder.path()).expect("read").collect();
        assert!(left.is_empty(), "{left:?}");
    });
}
