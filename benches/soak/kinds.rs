//! The kinds of evaluations, and what each must come to.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::{Client, assert_timed_out, payload};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Value,
    TypeError,
    SyntaxError,
    Exception,
    Warning,
    Printing,
    Burst,
    Directive,
    /// Succeeds at first, and then does not.
    HalfWay,
    Timeout,
    Cancel,
    Exit,
    Command,
    Batch,
    Question,
}

use Kind::*;

/// How often each comes, in a thousand.
const SHARES: [(Kind, u32); 15] = [
    (Value, 440),
    (TypeError, 80),
    (SyntaxError, 70),
    (Exception, 80),
    (Warning, 60),
    (Printing, 80),
    (Burst, 20),
    (Directive, 20),
    (HalfWay, 40),
    (Timeout, 8),
    (Cancel, 8),
    (Exit, 14),
    (Command, 10),
    (Batch, 30),
    (Question, 40),
];

impl Kind {
    pub fn pick(rng: &mut Rng) -> Kind {
        let all: u32 = SHARES.iter().map(|(_, share)| share).sum();
        let mut at = rng.u32(..all);
        for (kind, share) in SHARES {
            match at.checked_sub(share) {
                Some(rest) => at = rest,
                None => return kind,
            }
        }
        Value
    }

    /// Whether the plain toplevel can run its sources, too.
    pub fn is_for_plain(self) -> bool {
        !matches!(self, Timeout | Cancel | Exit | Question)
    }

    pub fn source(self, rng: &mut Rng, index: usize) -> String {
        let n = rng.usize(..50);
        let one = |rng: &mut Rng, of: &[&str]| of[rng.usize(..of.len())].to_string();
        match self {
            Value | Batch => match index % 6 {
                0 => format!("let x{n} = {index} + List.length [1; 2; 3]"),
                1 => format!("let f{n} a b = (a * {index}) + b"),
                2 => format!("List.fold_left (+) 0 [{index}; 2; 3]"),
                3 => format!("type t{n} = A{n} of int | B{n} of string"),
                4 => format!("module M{n} = struct let v = {index} let w = [v; v] end"),
                _ => format!("match {index} mod 3 with 0 -> \"fizz\" | _ -> \"no\""),
            },
            TypeError => one(
                rng,
                &["1 + true", "List.map 1", "nosuch 3", "let f x = x x"],
            ),
            SyntaxError => one(rng, &["let x = ", "1 + ) 2", "end", "let let = 1"]),
            Exception => one(
                rng,
                &[
                    "failwith \"no\"",
                    "List.find (fun x -> x = 1) []",
                    "1 / (1 - 1)",
                    "raise Exit",
                ],
            ),
            Warning => format!("let w{n} = function {n} -> 2"),
            Printing => format!("print_string \"out {index}\\n\"; prerr_endline \"err\""),
            Burst => format!(
                "print_string (String.make {} 'b')",
                3000 + rng.usize(..100_000)
            ),
            Directive => one(
                rng,
                &["#show List.map", "#warnings \"+9\"", "#print_depth 50"],
            ),
            HalfWay => format!("let h{n} = {index};; print_endline \"on\";; h{n} + true"),
            Timeout | Cancel => "while true do () done".into(),
            Exit => format!("print_string \"bye\"; exit {}", n % 3),
            Command => "Sys.command \"echo from a command\"".into(),
            Question => String::new(),
        }
    }

    pub fn run(self, client: &mut Client, source: &str) {
        match self {
            Timeout => assert_timed_out(&client.eval_within(source, 0.02)),
            Cancel => cancel(client, source),
            Question => question(client),
            Batch => {
                let (reply, _) =
                    client.call("eval_batch", json!({ "sources": [source, "1 + true"] }));
                assert_eq!(reply["stopped_on_error"], true, "{reply}");
            }
            _ => self.check(&client.eval(source)),
        }
    }

    fn check(self, reply: &Value) {
        let failure = match self {
            TypeError | HalfWay => json!("type"),
            SyntaxError => json!("syntax"),
            Exception => json!("exception"),
            Exit => json!("exit"),
            _ => json!(null),
        };
        if failure.is_null() {
            assert!(reply["error"].is_null(), "{self:?}: {reply}");
        } else {
            let kinds: Vec<&Value> = reply["diagnostics"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|diagnostic| &diagnostic["kind"])
                .collect();
            assert!(kinds.contains(&&failure), "{self:?}: {reply}");
        }
        let stdout = reply["stdout"].as_str().unwrap_or_default();
        match self {
            Warning => assert!(reply["warnings"].as_array().is_some_and(|w| !w.is_empty())),
            Printing => assert!(stdout.starts_with("out ") && reply["stderr"] == "err\n"),
            Burst => assert!(reply["stdout_overflow"].is_string(), "{reply}"),
            HalfWay => assert!(stdout == "on\n"),
            Exit => assert!(stdout == "bye"),
            Command => assert!(stdout == "from a command\n"),
            _ => assert!(stdout.is_empty(), "{self:?}: {reply}"),
        }
        assert!(reply.get("notice").is_none(), "{self:?}: {reply}");
    }
}

/// The cancellation is sent at once: it may come before the evaluation has begun, and then
/// is repeated.
fn cancel(client: &mut Client, source: &str) {
    let running = client.begin_call("eval", json!({ "source": source }));
    loop {
        client.begin_call("cancel", json!({}));
        let reply = client.receive();
        if payload(&reply).0["cancelled"] == true {
            break;
        }
    }
    let reply = client.receive();
    assert_eq!(reply["id"], running, "{reply}");
    assert_timed_out(&payload(&reply).0);
}

fn question(client: &mut Client) {
    for (tool, arguments) in [
        ("typecheck", json!({ "source": "fun x -> x + 1" })),
        ("complete", json!({ "source": "List.ma" })),
        ("lookup", json!({ "name": "List.map" })),
        ("env", json!({ "filter": "kept" })),
    ] {
        let (reply, is_error) = client.call(tool, arguments);
        assert!(!is_error, "{tool}: {reply}");
    }
}
