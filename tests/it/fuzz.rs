//! Ten thousand lines that are all but requests: each that is one gets one answer.
//!
//! The lines come from a generator with a fixed seed; a run that fails prints it, and the
//! window of lines in which it failed.

use std::fs;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::support::{BYTECODE, Client, Executable, NATIVE};

const SEED: u64 = 20_260_728;
/// Lines that are sent before their answers are read.
const WINDOW: usize = 50;

const SOURCES: [&str; 12] = [
    "1 + 1",
    "let x = 1",
    "let",
    "1 + true",
    "failwith \"no\"",
    "print_string \"out\"",
    "prerr_endline (String.make 20000 'é')",
    "type t = A | B;; A;; B",
    "#show list;;",
    "let f = function 1 -> 2",
    "(* open",
    "\"unended",
];
const METHODS: [&str; 8] = [
    "ping",
    "tools/list",
    "tools/call",
    "server/discover",
    "notifications/initialized",
    "notifications/cancelled",
    "resources/list",
    "",
];
/// `reset` and `restore` would take away what must be there at the end.
const TOOLS: [&str; 11] = [
    "eval",
    "eval_batch",
    "env",
    "load",
    "lookup",
    "typecheck",
    "complete",
    "load_project",
    "cancel",
    "compile_to_binary",
    "nosuch",
];
const FIELDS: [&str; 16] = [
    "source",
    "sources",
    "timeout",
    "session",
    "host",
    "filter",
    "all",
    "limit",
    "path",
    "name",
    "line",
    "column",
    "label",
    "entry",
    "out",
    "libraries",
];

/// Makes lines; each request has an id that no other line has.
struct Generator {
    rng: Rng,
    made: usize,
}

impl Generator {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(..from.len())].clone()
    }

    fn line(&mut self) -> Vec<u8> {
        self.made += 1;
        let mut line = match self.rng.u8(..10) {
            0 => (0..self.rng.usize(..200))
                .map(|_| self.rng.u8(..))
                .collect(),
            1..4 => {
                let mut line = self.request().to_string().into_bytes();
                for _ in 0..self.rng.usize(1..6) {
                    self.mutate(&mut line);
                }
                line
            }
            4..6 => self.envelope().to_string().into_bytes(),
            6 => {
                let members: Vec<Value> =
                    (0..self.rng.usize(..4)).map(|_| self.envelope()).collect();
                json!(members).to_string().into_bytes()
            }
            _ => self.request().to_string().into_bytes(),
        };
        line.retain(|byte| *byte != b'\n');
        line
    }

    fn mutate(&mut self, line: &mut Vec<u8>) {
        let at = self.rng.usize(..line.len().max(1)).min(line.len());
        match self.rng.u8(..4) {
            0 if at < line.len() => line[at] = self.rng.u8(..),
            1 if at < line.len() => drop(line.remove(at)),
            2 => line.truncate(at),
            _ => line.insert(at, self.pick(b"{}[]\",:0\\-e\0 ")),
        }
    }

    fn request(&mut self) -> Value {
        let mut arguments = Map::new();
        for _ in 0..self.rng.usize(..4) {
            let value = self.value(0);
            arguments.insert(self.pick(&FIELDS).into(), value);
        }
        if self.rng.bool() {
            arguments.insert("source".into(), self.pick(&SOURCES).into());
        }
        let params = json!({ "name": self.pick(&TOOLS), "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": format!("r{}", self.made), "method": "tools/call", "params": params })
    }

    fn envelope(&mut self) -> Value {
        let mut envelope = Map::new();
        for (name, usual) in [
            ("jsonrpc", json!("2.0")),
            ("id", json!(self.made)),
            ("method", json!(self.pick(&METHODS))),
            ("params", json!({})),
        ] {
            match self.rng.u8(..8) {
                0 => {}
                1 => drop(envelope.insert(name.into(), self.value(0))),
                _ => drop(envelope.insert(name.into(), usual)),
            }
        }
        if self.rng.u8(..10) == 0 {
            let value = self.value(0);
            envelope.insert(self.pick(&["result", "error", "extra"]).into(), value);
        }
        Value::Object(envelope)
    }

    fn value(&mut self, depth: usize) -> Value {
        let number = |text: &str| serde_json::from_str(text).expect("a number");
        match self.rng.u8(..if depth < 3 { 14 } else { 12 }) {
            0 => Value::Null,
            1 => json!(self.rng.bool()),
            2 => json!(self.rng.i64(..)),
            3 => number("1e400"),
            4 => number("-0.0"),
            5 => number("123456789012345678901234567890"),
            6 => json!(""),
            7 => json!("\u{0}\u{ffff}é\u{1F600}"),
            8 => json!("x".repeat(self.rng.usize(..3000))),
            9 => json!("local"),
            10 => json!(self.pick(&SOURCES)),
            11 => json!(0.05),
            12 => (0..self.rng.usize(..4))
                .map(|_| self.value(depth + 1))
                .collect(),
            _ => json!({ self.pick(&FIELDS): self.value(depth + 1) }),
        }
    }
}

/// The answer that a line must get, as the text of its id, or of the ids of a batch.
fn expected(line: &[u8], batches: bool) -> Option<String> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    match serde_json::from_slice::<Value>(line) {
        Ok(Value::Array(members)) if batches && !members.is_empty() => {
            let mut ids: Vec<String> = members.iter().filter_map(expected_one).collect();
            ids.sort();
            (!ids.is_empty()).then(|| ids.join(","))
        }
        Ok(message) => expected_one(&message),
        Err(_) => Some("null".into()),
    }
}

fn expected_one(message: &Value) -> Option<String> {
    let Value::Object(message) = message else {
        return Some("null".into());
    };
    let method = message.get("method");
    let is_response = message.contains_key("result") || message.contains_key("error");
    if method.is_none() && is_response {
        return None;
    }
    match message.get("id") {
        Some(id) if id.is_string() || id.is_number() => Some(id.to_string()),
        Some(_) => Some("null".into()),
        None => {
            let is_notification = message.get("jsonrpc") == Some(&json!("2.0"))
                && method.is_some_and(Value::is_string);
            (!is_notification).then(|| "null".into())
        }
    }
}

fn answered(reply: &Value) -> String {
    let id = |reply: &Value| reply.get("id").unwrap_or(&Value::Null).to_string();
    match reply {
        Value::Array(replies) => {
            let mut ids: Vec<String> = replies.iter().map(id).collect();
            ids.sort();
            ids.join(",")
        }
        reply => id(reply),
    }
}

fn run(executable: Executable, lines: usize, revision: &str) {
    eprintln!(
        "{}: {lines} lines, seed {SEED}, {revision}",
        executable.variant
    );
    let home = tempfile::tempdir().expect("a folder");
    let mut client = Client::start_with(executable, |command| {
        command
            .env("HOME", home.path())
            .env("TOPUP_TIMEOUT", "10")
            .current_dir(home.path());
    });
    client.request("initialize", json!({ "protocolVersion": revision }));
    client.receive();
    client.eval("let kept_binding = ref 41;; kept_binding := 42");
    let descriptors = |client: &Client| {
        let folder = format!("/proc/{}/fd", client.child.id());
        fs::read_dir(folder).expect("a process").count()
    };
    let before = descriptors(&client);
    let mut generator = Generator {
        rng: Rng::with_seed(SEED),
        made: 0,
    };
    for window in 0..lines / WINDOW {
        let lines: Vec<Vec<u8>> = (0..WINDOW).map(|_| generator.line()).collect();
        let batches = revision == "2025-03-26";
        let mut wanted: Vec<String> = lines.iter().filter_map(|l| expected(l, batches)).collect();
        client.send_bytes(&[lines.join(&b'\n'), b"\n".to_vec()].concat());
        let mut got: Vec<String> = (0..wanted.len())
            .map(|_| answered(&client.receive()))
            .collect();
        // What follows is the next thing that is said: there is no answer too many.
        client.send_line(r#"{"jsonrpc":"2.0","id":"between","method":"ping"}"#);
        let between = client.receive();
        wanted.sort();
        got.sort();
        let text = || String::from_utf8_lossy(&lines.join(&b'\n')).into_owned();
        assert_eq!(got, wanted, "window {window} of seed {SEED}:\n{}", text());
        assert_eq!(
            between["id"],
            "between",
            "window {window} of seed {SEED}:\n{}",
            text()
        );
    }
    let reply = client.eval("!kept_binding");
    assert_eq!(reply["value_repr"], "42", "{reply}");
    assert!(
        reply.get("notice").is_none(),
        "the process is the one that began: {reply}"
    );
    assert_eq!(descriptors(&client), before);
    let (rest, status) = client.finish();
    assert!(rest.is_empty() && status.success(), "{rest:?}");
}

#[test]
fn every_fuzzed_request_gets_one_answer() {
    run(BYTECODE, 8_000, "2025-06-18");
    run(BYTECODE, 2_000, "2025-03-26");
    if cfg!(native_toplevel) {
        run(NATIVE, 1_000, "2025-06-18");
    }
}
