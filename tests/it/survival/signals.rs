//! Signals: those that user code sends to its own process, and those of others.

use std::os::unix::process::ExitStatusExt;

use super::cases::{Case, HARM, Reply, UNIX, check, run};
use super::session::{each, each_kind};
use crate::support::{BYTECODE, Client};

/// Signals that end a process by default, by number. The system's name, if there is one.
const ENDING: [(i32, &str); 22] = [
    (1, "SIGHUP"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (16, "signal 16"),
    (24, "SIGXCPU"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (29, "SIGIO"),
    (30, "signal 30"),
    (31, "SIGSYS"),
    (34, "signal 34"),
    (50, "signal 50"),
    (64, "signal 64"),
];

/// Signals that do nothing: by default, because nobody is there who would let the process
/// go on, or because writes fail instead.
const HARMLESS: [i32; 9] = [13, 17, 18, 20, 21, 22, 23, 25, 28];

#[test]
fn a_signal_to_the_own_process_costs_one_reply() {
    each(|session| {
        let executable = session.executable;
        session.end();
        for (number, name) in ENDING {
            // A session for each: the third end in a minute begins an empty one.
            let mut session = super::session::Session::start(executable);
            session.prepare("let x = 41 let r = ref 1;; r := 7");
            session.load_harm();
            let source = format!("Harm.kill {number}");
            let reply = session.eval(&source);
            super::cases::assert_crashed(&reply, Some(name), name);
            let next = session.eval("x + !r");
            assert_eq!(next["value_repr"], "48", "{name}: {next}");
            session.end();
        }
    });
}

#[test]
fn some_signals_do_nothing() {
    each(|mut session| {
        session.prepare("let x = 41 let r = ref 1;; r := 7");
        session.load_harm();
        for number in HARMLESS {
            let reply = session.eval(&format!("Harm.kill {number}"));
            assert_eq!(reply["value_repr"], "0", "{number}: {reply}");
        }
        check(&mut session, &INTERRUPTED);
        session.end();
    });
}

/// It is what ^C does in `ocaml`.
const INTERRUPTED: Case = Case {
    what: "SIGINT",
    needs: &[],
    source: "ignore (Harm.kill 2); while true do ignore (Sys.opaque_identity (ref 0)) done",
    reply: Reply::Error("Interrupted"),
};

#[test]
fn what_user_code_makes_of_signals_does_not_disarm_us() {
    run(&[
        Case {
            what: "the default of a fault",
            needs: &[HARM, "Harm.default 11"],
            source: super::cases::CRASH,
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "a fault that is ignored",
            needs: &[HARM, "Harm.ignore_signal 11"],
            source: super::cases::CRASH,
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "the default of another",
            needs: &[HARM],
            source: "Harm.default 10;; Harm.kill 10",
            reply: Reply::Crash(Some("SIGUSR1")),
        },
        Case {
            what: "another that is ignored",
            needs: &[HARM, "Harm.ignore_signal 10"],
            source: "Harm.kill 10",
            reply: Reply::Value("0"),
        },
        Case {
            what: "every signal blocked",
            needs: &[HARM, "Harm.mask_all ()"],
            source: super::cases::CRASH,
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "a handler that raises",
            needs: &[
                UNIX,
                "Sys.set_signal Sys.sigusr1 (Sys.Signal_handle (fun _ -> failwith \"mine\"))",
            ],
            source: "Unix.kill (Unix.getpid ()) Sys.sigusr1; Unix.sleepf 0.1",
            reply: Reply::Error("mine"),
        },
        Case {
            what: "an alarm",
            needs: &[UNIX],
            source: "ignore (Unix.setitimer Unix.ITIMER_REAL { it_value = 0.01; it_interval = 0. }); Unix.sleep 30",
            reply: Reply::Crash(Some("SIGALRM")),
        },
    ]);
}

#[test]
fn signals_from_outside_do_what_they_always_do() {
    for (signal, number) in [("USR1", 10), ("QUIT", 3), ("SEGV", 11)] {
        let mut client = Client::start(BYTECODE);
        client.eval("1");
        client.signal(signal);
        assert_eq!(client.wait().signal(), Some(number), "{signal}");
    }
}

#[test]
fn sigterm_ends_a_server_whose_user_code_blocks_and_ignores_it() {
    each(|mut session| {
        session.load_harm();
        session.prepare("Harm.mask_all (); Harm.ignore_signal 15");
        session.client.signal("TERM");
        assert!(session.client.wait().success());
    });
}

#[test]
fn what_user_code_raises_between_calls_is_told() {
    each_kind(|mut session| {
        let what = session.describe();
        session.prepare("#require \"unix\"");
        let pid = session.eval("Unix.getpid ()")["value_repr"].clone();
        session.prepare("let ran = ref 0 let on s = Sys.set_signal s (Sys.Signal_handle (fun _ -> incr ran; raise Exit));; on Sys.sigusr1; on Sys.sigalrm");
        for round in 1..=5 {
            let script = format!("kill -s USR1 {}", pid.as_str().unwrap());
            let killed = std::process::Command::new("sh")
                .args(["-c", &script])
                .status();
            assert!(killed.unwrap().success());
            let reply = session.eval("!ran");
            assert_eq!(reply["value_repr"], round.to_string(), "{what}: {reply}");
            let notice = reply["notice"].as_str().unwrap_or_default();
            assert!(notice.contains("Stdlib.Exit"), "{what}: {reply}");
        }
        // An alarm that goes off when its evaluation is over.
        session.prepare("Unix.setitimer Unix.ITIMER_REAL { it_value = 0.1; it_interval = 0. }");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let reply = session.eval("!ran");
        assert_eq!(reply["value_repr"], "6", "{what}: {reply}");
        let notice = reply["notice"].as_str().unwrap_or_default();
        assert!(notice.contains("Stdlib.Exit"), "{what}: {reply}");
        let pid_now = session.eval("Unix.getpid ()")["value_repr"].clone();
        assert_eq!(pid_now, pid, "{what}: it is the same process");
        session.end();
    });
}
