//! Many evaluations with every kind of failure among them, in one process: it stays the
//! size that the plain toplevel has after the same phrases, and leaves nothing behind.
//!
//! `make soak` runs 194,000 in `topup` and 6,000 in `topup-opt`, whose phrases take twenty
//! times as long, and longer the more code there is, as in `ocamlnat`; arguments are other
//! numbers, for the one and for the other. Without any, as in `make test`, it is 2,000 each.
//! Exits with 1 if something is not as it must be.

#[path = "../../tests/it/support.rs"]
#[allow(dead_code, reason = "shared with tests/it, which uses the rest")]
mod support;

mod kinds;
mod plain;
mod traces;

use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;

use kinds::Kind;
use plain::Plain;
use support::{Client, Executable, executables, toolchain};
use traces::Traces;

const SEED: u64 = 53;
const SHORT: usize = 2_000;
/// Growth that is allowed: so much of the plain toplevel's (which is never reset, restored
/// or asked questions), and so many megabytes.
const FACTOR: f64 = 1.2;
const SLACK: f64 = 24.0;
/// Three crashes within a minute would begin an empty session.
const BETWEEN_CRASHES: Duration = Duration::from_secs(45);

fn main() {
    let counts: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let bin = PathBuf::from(toolchain("bin"));
    let mut failed = false;
    for (index, executable) in executables().into_iter().enumerate() {
        let count = counts.get(index).copied().unwrap_or(SHORT);
        for problem in Soak::start(executable, &bin).run(count) {
            println!("soak: {}: FAILED: {problem}", executable.variant);
            failed = true;
        }
    }
    if failed {
        exit(1)
    }
}

/// A server and a plain toplevel, side by side.
struct Soak {
    executable: Executable,
    folder: tempfile::TempDir,
    client: Client,
    plain: Option<Plain>,
    rng: Rng,
    crashed: Option<Instant>,
    /// Evaluations from one reset to the next.
    cycle: usize,
}

impl Soak {
    fn start(executable: Executable, bin: &Path) -> Soak {
        let folder = tempfile::tempdir().expect("a folder");
        let tmp = folder.path().join("tmp");
        std::fs::create_dir(&tmp).expect("made");
        let client = Client::start_with(executable, |command| {
            command
                .env("HOME", folder.path())
                .env("TMPDIR", &tmp)
                .env("TOPUP_INLINE_MAX", "2000")
                .env("TOPUP_TIMEOUT", "50");
        });
        let native = executable.variant == "native";
        let peer = bin.join(if native { "ocamlnat" } else { "ocaml" });
        Soak {
            executable,
            client,
            plain: peer.exists().then(|| Plain::start(&peer)),
            folder,
            rng: Rng::with_seed(SEED),
            crashed: None,
            cycle: if native { 250 } else { 1_000 },
        }
    }

    /// Runs so many evaluations; returns what is not as it must be.
    fn run(mut self, count: usize) -> Vec<String> {
        let what = self.executable.variant;
        println!("soak: {what}: {count} evaluations, seed {SEED}");
        self.begin();
        for index in 0..100 {
            self.evaluation(index);
        }
        let before = self.traces();
        let mut most = before.megabytes;
        let begun = Instant::now();
        for index in 100..count {
            self.evaluation(index);
            if index % 100 == 0 {
                most = most.max(self.client.resident());
            }
            if index % (count / 20).max(1) == 0 {
                let rate = (index - 100) as f64 / begun.elapsed().as_secs_f64();
                let plain = self.plain.as_ref().map_or(0.0, Plain::resident);
                println!(
                    "soak: {what}: {index} of {count}, {rate:.0}/s; {}; plain {plain:.1} MB",
                    self.traces()
                );
            }
        }
        self.check_kept("at the end");
        let after = self.traces();
        let mut problems = before.left_behind(&after);
        let grown = most - before.megabytes;
        match self.plain.as_mut().map(Plain::growth) {
            Some(plain) => {
                println!(
                    "soak: {what}: grew by {grown:.1} MB at most, plain by {plain:.1} MB (limit: \
                     {FACTOR} of that and {SLACK} MB)"
                );
                if grown > FACTOR * plain + SLACK {
                    problems.push(format!("{grown:.1} MB more, plain {plain:.1} MB"));
                }
            }
            None => println!("soak: {what}: there is no plain toplevel to compare with"),
        }
        let (rest, status) = self.client.finish();
        if !rest.is_empty() || !status.success() {
            problems.push(format!("it ended with {status} and {rest:?}"));
        }
        problems
    }

    fn traces(&self) -> Traces {
        Traces::of(self.client.child.id(), self.folder.path())
    }

    /// What every later evaluation must find.
    fn begin(&mut self) {
        let reply = self.client.eval("let kept = ref 41;; kept := 42");
        assert!(reply["error"].is_null(), "{reply}");
    }

    fn check_kept(&mut self, when: &str) {
        let reply = self.client.eval("!kept");
        assert_eq!(reply["value_repr"], "42", "{when}: {reply}");
    }

    fn evaluation(&mut self, index: usize) {
        let cycle = self.cycle;
        match (index % cycle, index / cycle % 2) {
            (at, _) if at == cycle / 2 => self.tool("checkpoint", json!({ "label": "half" })),
            (at, 1) if at == cycle * 3 / 4 => {
                self.tool("restore", json!({ "label": "half" }));
                self.check_kept("restored");
            }
            (at, _) if at == cycle - 1 => {
                self.check_kept("before a reset");
                self.tool("reset", json!({}));
                self.begin();
            }
            (at, _) if at == cycle / 3 && self.may_crash() => self.crash(),
            _ => {
                let kind = Kind::pick(&mut self.rng);
                let source = kind.source(&mut self.rng, index);
                if let Some(plain) = self.plain.as_mut().filter(|_| kind.is_for_plain()) {
                    plain.feed(&source);
                }
                kind.run(&mut self.client, &source);
            }
        }
    }

    fn tool(&mut self, name: &str, arguments: serde_json::Value) {
        let (reply, is_error) = self.client.call(name, arguments);
        assert!(!is_error, "{name}: {reply}");
    }

    fn may_crash(&self) -> bool {
        self.crashed.is_none_or(|at| at.elapsed() > BETWEEN_CRASHES)
    }

    fn crash(&mut self) {
        self.crashed = Some(Instant::now());
        let source = "print_string (String.make 3000 'c'); flush stdout; \
                      String.length (Obj.magic 3 : string ref).contents";
        let reply = self.client.eval(source);
        assert_eq!(reply["phase"], "crash", "{reply}");
        assert!(reply["stdout_overflow"].is_string(), "{reply}");
        let reply = self.client.eval("!kept");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        let notice = reply["notice"].as_str().unwrap_or_default();
        assert!(notice.contains("restored"), "{reply}");
    }
}
