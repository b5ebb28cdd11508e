//! topup against the plain toplevels of the same OCaml, in one run. Prints a table of
//! ratios with their targets; exits with 1 if one is missed.
//!
//! `make bench` runs it; arguments choose parts (eval, start, memory, output). A single figure moves with the machine; the ratio of two that
//! were taken side by side hardly does.

#[path = "../tests/it/support.rs"]
#[allow(dead_code, reason = "shared with tests/it, which uses the rest")]
mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio, exit};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{Client, Executable, executables, payload, resident, toolchain};

const PHRASES: usize = 2_000;
const STRETCH: usize = 50;
const STARTS: usize = 30;
const GROWTH_PHRASES: usize = 10_000;

fn main() {
    let toolchain = PathBuf::from(toolchain("bin"));
    let mut table = Table::default();
    for executable in executables() {
        let peer = toolchain.join(match executable.variant {
            "bytecode" => "ocaml",
            _ => "ocamlnat",
        });
        let native = executable.variant == "native";
        if !peer.exists() {
            println!(
                "{}: skipped, there is no {}",
                executable.variant,
                peer.display()
            );
            continue;
        }
        // A native phrase takes twenty times as long.
        let phrases = if native { PHRASES / 4 } else { PHRASES };
        let wanted = |part: &str| {
            let parts: Vec<_> = std::env::args()
                .skip(1)
                .filter(|a| !a.starts_with("--"))
                .collect();
            parts.is_empty() || parts.iter().any(|p| p == part)
        };
        if wanted("eval") {
            round_trips(executable, &peer, phrases, &mut table);
        }
        if wanted("start") {
            starts(executable, &peer, &mut table);
        }
        if wanted("memory") {
            memory(
                executable,
                &peer,
                if native { 500 } else { GROWTH_PHRASES },
                &mut table,
            );
        }
        if wanted("output") {
            output(executable, &peer, &mut table);
        }
    }
    if !table.print() {
        exit(1)
    }
}

/// (a) one phrase, there and back, from the first byte of the request to the last of the
/// answer: p50 and p99.
fn round_trips(executable: Executable, peer: &Path, count: usize, table: &mut Table) {
    let mut client = Client::start(executable);
    let mut plain = Plain::start(peer);
    client.eval("1");
    plain.eval("1;;");
    let (mut ours, mut inside, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    // Turn and turn about, so that both meet the same machine; in stretches, so that neither
    // works in the caches that the other has just filled.
    for stretch in 0..count / STRETCH {
        let indices = stretch * STRETCH..(stretch + 1) * STRETCH;
        for index in indices.clone() {
            let phrase = format!("{};;", phrase(index));
            theirs.push(timed(|| plain.eval(&phrase)));
        }
        for index in indices {
            let request = client.call_line("eval", json!({ "source": phrase(index) }));
            let mut line = String::new();
            ours.push(timed(|| {
                client.send_line(&request);
                line = client.receive_line();
            }));
            let (reply, _) = payload(&serde_json::from_str(&line).expect("JSON"));
            inside.push(reply["elapsed_ms"].as_f64().expect("a number"));
        }
    }
    let what = format!("{} eval, {count} phrases", executable.variant);
    let (p50, p99) = (quantile(&mut ours, 50), quantile(&mut ours, 99));
    table.ratio(
        &format!("{what}: p50"),
        p50,
        quantile(&mut theirs, 50),
        Some(1.0),
    );
    let inside = quantile(&mut inside, 50);
    table.ratio(
        &format!("{what}: p50 of elapsed_ms"),
        inside,
        quantile(&mut theirs, 50),
        None,
    );
    table.ratio(
        &format!("{what}: p99"),
        p99,
        quantile(&mut theirs, 99),
        None,
    );
}

/// (b) from the start of the process to the first answer.
fn starts(executable: Executable, peer: &Path, table: &mut Table) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        theirs.push(timed(|| {
            let output = Command::new(peer)
                .args(["-e", "1"])
                .output()
                .expect("the peer runs");
            assert!(output.status.success());
        }));
        ours.push(timed(|| {
            let mut client = Client::start(executable);
            client.request("initialize", json!({ "protocolVersion": "2025-06-18" }));
            client.receive();
            client.eval("1");
        }));
    }
    let what = format!("{} start to first answer", executable.variant);
    table.ratio(
        &what,
        quantile(&mut ours, 50),
        quantile(&mut theirs, 50),
        Some(1.0),
    );
}

/// (c) resident memory, idle and after many phrases.
fn memory(executable: Executable, peer: &Path, count: usize, table: &mut Table) {
    let mut client = Client::start(executable);
    let mut plain = Plain::start(peer);
    client.eval("1");
    plain.eval("1;;");
    let limit = if executable.variant == "native" {
        35.0
    } else {
        25.0
    };
    let idle = resident(client.child.id());
    table.size(&format!("{} idle", executable.variant), idle, limit);
    let plain_idle = resident(plain.child.id());
    for index in 0..count {
        let phrase = phrase(index);
        client.eval(&phrase);
        plain.eval(&format!("{phrase};;"));
    }
    let grown = resident(client.child.id()) - idle;
    let plain_grown = resident(plain.child.id()) - plain_idle;
    let what = format!("{} growth over {count} phrases (MB)", executable.variant);
    table.ratio(&what, grown, plain_grown, Some(1.2));
}

/// (d) 100 MB of stdout, captured; the peer writes to a file.
fn output(executable: Executable, peer: &Path, table: &mut Table) {
    let source = "let line = String.make 99 'x' ^ \"\\n\" in \
                  for _ = 1 to 1_000_000 do print_string line done";
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let path = std::env::temp_dir().join(format!("topup-bench-{}", std::process::id()));
    let run_peer = |source: &str| {
        let _ = fs::remove_file(&path);
        timed(|| {
            let file = File::create(&path).expect("a file");
            let status = Command::new(peer)
                .args(["-e", source])
                .stdout(file)
                .status();
            assert!(status.expect("the peer runs").success());
        })
    };
    let mut client = Client::start(executable);
    for _ in 0..9 {
        let start = run_peer("1");
        theirs.push(run_peer(source) - start);
        let mut reply = json!(null);
        ours.push(timed(|| reply = client.eval(source)));
        let spilled = reply["stdout_overflow"].as_str().expect("100 MB spill");
        assert_eq!(
            fs::metadata(spilled)
                .expect("the spilled file is there")
                .len(),
            100_000_000
        );
        fs::remove_file(spilled).expect("removed");
    }
    let _ = fs::remove_file(&path);
    let what = format!("{} 100 MB of output", executable.variant);
    table.ratio(
        &what,
        quantile(&mut ours, 50),
        quantile(&mut theirs, 50),
        Some(1.5),
    );
}

/// One-line phrases of several kinds, each with one line of answer.
fn phrase(index: usize) -> String {
    match index % 5 {
        0 => format!("let x{} = {index} + List.length [1; 2; 3]", index % 50),
        1 => format!("let f{} a b = (a * {index}) + b", index % 50),
        2 => format!("List.fold_left (+) 0 [{index}; 2; 3]"),
        3 => format!("String.concat \"-\" [\"a\"; string_of_int {index}]"),
        _ => format!("match {index} mod 3 with 0 -> \"fizz\" | _ -> \"no\""),
    }
}

/// The plain toplevel, fed like a terminal would.
struct Plain {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Plain {
    fn start(peer: &Path) -> Plain {
        let mut child = Command::new(peer)
            .args(["-noprompt", "-noinit", "-nopromptcont", "-no-version"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Plain {
            child,
            input,
            output,
        }
    }

    fn eval(&mut self, phrase: &str) {
        self.input
            .write_all(format!("{phrase}\n").as_bytes())
            .expect("written");
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            assert!(
                self.output.read_line(&mut line).expect("readable") > 0,
                "the peer ended"
            );
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Milliseconds.
fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().div_duration_f64(Duration::from_millis(1))
}

fn quantile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}

#[derive(Default)]
struct Table {
    rows: Vec<String>,
    missed: bool,
}

impl Table {
    fn ratio(&mut self, what: &str, ours: f64, theirs: f64, target: Option<f64>) {
        let ratio = ours / theirs;
        let target = self.target(ratio, target);
        self.rows.push(format!(
            "| {what} | {ours:.2} | {theirs:.2} | {ratio:.2} | {target} |"
        ));
        println!("{}", self.rows.last().expect("just pushed"));
    }

    fn size(&mut self, what: &str, megabytes: f64, limit: f64) {
        let target = self.target(megabytes, Some(limit));
        self.rows
            .push(format!("| {what} (MB) | {megabytes:.1} | | | {target} |"));
        println!("{}", self.rows.last().expect("just pushed"));
    }

    fn target(&mut self, value: f64, target: Option<f64>) -> String {
        let Some(target) = target else {
            return "".into();
        };
        // As precise as it is printed.
        let met = (value * 100.0).round() <= target * 100.0;
        self.missed |= !met;
        format!("≤ {target}{}", if met { "" } else { " MISSED" })
    }

    /// False if a target was missed.
    fn print(&self) -> bool {
        println!("\n| | topup | plain | ratio | target |\n|---|---|---|---|---|");
        for row in &self.rows {
            println!("{row}");
        }
        !self.missed && !self.rows.is_empty()
    }
}
