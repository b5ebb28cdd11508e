//! Recursion without end, wherever it happens.

use super::cases::{Case, HARM, Reply, THREADS, run};

const DEEP: &str = "let rec deep n = 1 + deep (n + 1)";

#[test]
fn a_stack_overflow_costs_one_reply() {
    run(&[
        Case {
            what: "OCaml code",
            needs: &[DEEP],
            source: "deep 0",
            reply: Reply::Error("Stack overflow"),
        },
        Case {
            what: "C code",
            needs: &[HARM],
            source: "Harm.deep ()",
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "C code, without a stack for signals",
            needs: &[HARM, "Harm.no_signal_stack ()"],
            source: "Harm.deep ()",
            reply: Reply::Crash(Some("SIGSEGV")),
        },
        Case {
            what: "a printer",
            needs: &[
                DEEP,
                "type t = T",
                "let pp ppf T = Format.pp_print_int ppf (deep 0)",
                "#install_printer pp",
            ],
            source: "T",
            reply: Reply::Value("<printer pp raised an exception: Stack overflow>"),
        },
        Case {
            what: "a thread",
            needs: &[THREADS, DEEP],
            source: "let said = ref \"\" in
                     Thread.join (Thread.create (fun () ->
                       try ignore (deep 0) with e -> said := Printexc.to_string e) ());
                     !said",
            reply: Reply::Value("\"Stack overflow\""),
        },
    ]);
}

#[test]
fn structures_that_are_deep_are_compared_and_written() {
    const DEEP_VALUE: &str =
        "let rec nest n v = if n = 0 then v else nest (n - 1) (Obj.repr [| v |])";
    run(&[
        Case {
            what: "compare",
            needs: &[DEEP_VALUE],
            source: "compare (nest 3_000_000 (Obj.repr 0)) (nest 3_000_000 (Obj.repr 0))",
            reply: Reply::Value("0"),
        },
        Case {
            what: "Marshal",
            needs: &[DEEP_VALUE],
            source: "let s = Marshal.to_string (nest 3_000_000 (Obj.repr 0)) [] in
                     compare (Marshal.from_string s 0) (nest 3_000_000 (Obj.repr 0))",
            reply: Reply::Value("0"),
        },
    ]);
}

/// Sources of which the parser and the type checker make deep trees: an answer, an error or
/// the timeout, in the time that a timeout takes.
#[test]
fn sources_that_are_deep_end() {
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    let sources = [
        ("parentheses", nested("(", "1", ")", 200_000)),
        ("sums", format!("1{}", "+1".repeat(1_000_000))),
        ("lists", nested("[", "1", "]", 100_000)),
        ("types", format!("type t = int{}", " list".repeat(100_000))),
        ("unclosed", "(".repeat(1_000_000)),
    ];
    for (what, source) in &sources {
        super::session::each(|mut session| {
            session.prepare("let x = 41");
            let reply = session.eval_within(source, 0.5);
            // The replies name what they show.
            let said = reply.get("value_repr").or(reply.get("error"));
            assert!(said.is_some(), "{what}: {reply}");
            let next = session.eval("x + 1");
            assert_eq!(next["value_repr"], "42", "{what}: {next}");
            session.end();
        });
    }
}
