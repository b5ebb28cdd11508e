//! Timeouts and interrupts, and what user code tries against them.

use crate::support::{Client, assert_timed_out, each};

#[test]
fn a_timeout_leaves_the_session_with_its_bindings() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let kept = 42");
        let reply = client.eval_within("while true do () done", 0.5);
        assert_timed_out(&reply);
        assert_eq!(reply["diagnostics"][0]["kind"], "timeout");
        assert_eq!(client.eval("kept")["value_repr"], "42");
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
        assert_timed_out(&reply);
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
