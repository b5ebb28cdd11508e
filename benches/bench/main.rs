//! topup against the plain toplevels of the same OCaml, in one run. Prints a table of
//! ratios with their targets; exits with 1 if one is missed.
//!
//! `make bench` runs it; arguments choose parts (eval, start, memory, output, workspace,
//! sessions, transfer). A
//! single figure moves with the machine; the ratio of two that were taken side by side
//! hardly does.

#[path = "../../tests/it/support.rs"]
#[allow(dead_code, reason = "shared with tests/it, which uses the rest")]
mod support;

#[path = "../../tests/it/remote"]
#[allow(dead_code, reason = "shared with tests/it, which uses the rest")]
mod remote {
    mod home;
    mod machines;
    mod sshd;

    pub use machines::{Near, User};
}

mod plain;
mod sessions;
mod table;
mod transfer;
mod workspace;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::{Duration, Instant};

use plain::Plain;
use serde_json::json;
use support::{Client, Executable, executables, payload, resident, toolchain};
use table::Table;

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
        if wanted("workspace") {
            workspace::many_bindings(executable, &mut table);
            workspace::restore(executable, &peer, &mut table);
        }
        if wanted("sessions") {
            sessions::routing(executable, &mut table);
            sessions::pools(executable, &mut table);
            sessions::memory(executable, &mut table);
            sessions::restore(executable, &mut table);
        }
        if wanted("transfer") {
            transfer::files(executable, &mut table);
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
