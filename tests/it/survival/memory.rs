//! Memory: more than there is, more than is allowed, and values that are printed as more.

use super::cases::{Case, Reply, run};
use super::session::{Session, each};

#[test]
fn what_cannot_be_had_is_an_exception() {
    run(&[
        Case {
            what: "bytes",
            needs: &[],
            source: "Bytes.create max_int",
            reply: Reply::Error("Invalid_argument"),
        },
        Case {
            what: "an array",
            needs: &[],
            source: "Array.make max_int 0",
            reply: Reply::Error("Invalid_argument"),
        },
        Case {
            what: "a string of all that there is",
            needs: &[],
            source: "Bytes.length (Bytes.create Sys.max_string_length)",
            reply: Reply::Error("Out of memory"),
        },
        Case {
            what: "a bigarray of more than a machine has",
            needs: &[],
            source: "Bigarray.(Array1.create char c_layout 1_000_000_000_000_000)",
            reply: Reply::Error("Out of memory"),
        },
    ]);
}

/// What is printed has a limit, whatever the value is.
#[test]
fn values_that_explode_when_they_are_printed_are_cut() {
    each(|mut session| {
        session.prepare("let x = 41");
        session.prepare("type t = L | N of t * t;; let rec dag n = if n = 0 then L else let d = dag (n - 1) in N (d, d)");
        for source in [
            "dag 60",
            "List.init 10_000_000 Fun.id",
            "Array.make 10_000_000 1.5",
            "String.make 100_000_000 '\\001'",
        ] {
            let reply = session.eval(source);
            let shown = reply["value_repr"].as_str().unwrap_or_default();
            assert!(
                !shown.is_empty() && shown.len() < 11_000,
                "{source}: {reply}"
            );
        }
        // The limits of the printer taken away.
        session.prepare("#print_depth 1_000_000;; #print_length 1_000_000_000");
        let reply = session.eval_within("dag 60", 0.3);
        crate::support::assert_timed_out(&reply);
        assert_eq!(session.eval("x + 1")["value_repr"], "42");
        session.end();
    });
}

#[test]
fn memory_has_a_limit() {
    each(|session| {
        let executable = session.executable;
        session.end();
        let limit = (300 << 20).to_string();
        let mut session = Session::with(executable, &[("TOPUP_MEMORY_MAX", &limit)]);
        session.prepare("let x = 41");
        let hoard = "let l = ref [] in while true do l := Bytes.make 100_000 'x' :: !l done";
        let reply = session.eval(hoard);
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(error.contains("more than 300 MB in memory"), "{reply}");
        assert_eq!(reply["diagnostics"][0]["kind"], "memory", "{reply}");
        // What was hoarded is garbage, and is used again.
        for _ in 0..3 {
            assert!(session.eval(hoard)["error"].is_string());
            assert_eq!(session.eval("Gc.compact ();; x + 1")["value_repr"], "42");
        }
        let resident = session.client.resident();
        assert!(resident < 600.0, "{resident} MB");
        // One call that takes it all at once, and cannot be interrupted.
        let reply = session.eval("Bytes.length (Bytes.make 3_000_000_000 'x')");
        let said = reply.to_string();
        assert!(
            said.contains("300 MB") || reply["value_repr"] == "3000000000",
            "{reply}"
        );
        assert_eq!(session.eval("x + 1")["value_repr"], "42");
    });
}
