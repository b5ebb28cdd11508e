//! A workspace that has grown.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Client, Executable, HOME};
use crate::table::Table;
use crate::{phrase, quantile, timed};

const BINDINGS: usize = 10_000;

/// (e) `env` with a filter among many bindings, and what a phrase costs with few and many.
pub fn many_bindings(executable: Executable, table: &mut Table) {
    let mut few = Client::start(executable);
    let mut many = Client::start(executable);
    let bindings = |range: std::ops::Range<usize>| -> String {
        range.map(|i| format!("let b{i} = {i} ")).collect()
    };
    few.eval(&bindings(0..10));
    // Phrases of ten: in native code each takes ten milliseconds.
    for index in 0..BINDINGS / 10 {
        let reply = many.eval(&bindings(index * 10..index * 10 + 10));
        assert!(reply["error"].is_null(), "{reply}");
    }
    let (mut env, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..200 {
        let source = format!("b{} + 1", index % 10);
        ours.push(timed(|| drop(many.eval(&source))));
        theirs.push(timed(|| drop(few.eval(&source))));
        if index % 10 == 0 {
            env.push(timed(|| {
                let (reply, _) = many.call("env", json!({ "filter": "b77" }));
                assert_eq!(reply["total"], 111);
            }));
        }
    }
    let what = format!(
        "{} env with a filter, {BINDINGS} bindings",
        executable.variant
    );
    table.limit(&what, quantile(&mut env, 50), 20.0);
    let what = format!(
        "{} eval, {BINDINGS} bindings against 10: p50",
        executable.variant
    );
    table.ratio(
        &what,
        quantile(&mut ours, 50),
        quantile(&mut theirs, 50),
        Some(1.3),
    );
}

/// (f) a checkpoint of many phrases, against the plain toplevel that reads the same file.
pub fn restore(executable: Executable, peer: &Path, table: &mut Table) {
    let count = if executable.variant == "native" {
        200
    } else {
        10_000
    };
    let mut client = Client::start(executable);
    for index in 0..count {
        client.eval(&phrase(index));
    }
    let (reply, _) = client.call("checkpoint", json!({ "label": "bench" }));
    assert_eq!(reply["phrases"], count);
    let path = format!("{HOME}/.topup/checkpoints/bench.ml");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        theirs.push(timed(|| {
            let status = Command::new(peer)
                .arg("-noinit")
                .stdin(File::open(&path).expect("the checkpoint"))
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("the peer runs").success());
        }));
        ours.push(timed(|| {
            let (reply, is_error) = client.call("restore", json!({ "label": "bench" }));
            assert!(!is_error, "{reply}");
        }));
    }
    fs::remove_file(&path).expect("removed");
    let what = format!("{} restore of {count} phrases", executable.variant);
    table.ratio(
        &what,
        quantile(&mut ours, 50),
        quantile(&mut theirs, 50),
        Some(1.2),
    );
}
