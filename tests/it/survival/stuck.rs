//! Evaluations that do not want to end: an interrupt, again, then a new image.

use super::cases::{Case, HARM, Reply, THREADS, run};
use crate::support::toolchain;

#[test]
fn what_an_interrupt_stops() {
    if toolchain("version").starts_with('4') {
        // There loops that do not allocate are not interrupted.
        return;
    }
    run(&[
        Case {
            what: "recursion that allocates nothing",
            needs: &[],
            source: "let rec f n = if n < 0 then 0 else f (n land 7) in f 1",
            reply: Reply::Interrupted,
        },
        Case {
            what: "equality of cyclic lists",
            needs: &[],
            source: "let rec a = 1 :: a and b = 1 :: b in a = b",
            reply: Reply::Interrupted,
        },
        Case {
            what: "SIGINT blocked by OCaml code",
            needs: &[THREADS],
            source: "ignore (Thread.sigmask Unix.SIG_BLOCK [Sys.sigint]); while true do () done",
            reply: Reply::Interrupted,
        },
        Case {
            what: "SIGINT blocked by an earlier phrase",
            needs: &[
                THREADS,
                "ignore (Unix.sigprocmask Unix.SIG_SETMASK [Sys.sigint])",
            ],
            source: "while true do () done",
            reply: Reply::Interrupted,
        },
        Case {
            what: "every signal blocked by C code",
            needs: &[HARM],
            source: "Harm.mask_all (); while true do () done",
            reply: Reply::Interrupted,
        },
        Case {
            what: "SIGINT ignored by C code",
            needs: &[HARM],
            source: "Harm.ignore_signal 2; while true do () done",
            reply: Reply::Interrupted,
        },
        Case {
            what: "a handler of SIGINT that does nothing",
            needs: &[],
            source: "Sys.set_signal Sys.sigint (Sys.Signal_handle ignore); while true do () done",
            reply: Reply::Interrupted,
        },
    ]);
}

#[test]
fn what_nothing_interrupts_is_ended_in_a_stronger_way() {
    run(&[
        Case {
            what: "every exception caught",
            needs: &[],
            source: "while true do try while true do ignore (Sys.opaque_identity (ref 0)) done with _ -> () done",
            reply: Reply::Stuck,
        },
        Case {
            what: "a loop in C",
            needs: &[HARM],
            source: "Harm.spin ()",
            reply: Reply::Stuck,
        },
    ]);
    if toolchain("version").starts_with('5') {
        run(&[Case {
            what: "a domain that is waited for",
            needs: &[],
            source: "Domain.join (Domain.spawn (fun () -> while true do () done))",
            reply: Reply::Stuck,
        }]);
    }
}

/// A call of C that sleeps, with OCaml's lock, hears of each interrupt and sleeps on.
#[test]
fn a_call_that_blocks_is_ended() {
    super::session::each(|mut session| {
        session.prepare("let x = 41");
        session.load_harm();
        let reply = session.eval_within("Harm.sleep 1000", 0.3);
        crate::support::assert_timed_out(&reply);
        assert_eq!(session.eval("x + 1")["value_repr"], "42");
        session.end();
    });
}
