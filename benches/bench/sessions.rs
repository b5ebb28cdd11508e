//! Named sessions: what routing costs, pools, instant checkpoints.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Client, Executable, HOME};
use crate::table::Table;
use crate::{phrase, quantile, timed};

const POOL: usize = 8;
const SESSION: &str = "bench";

/// (g) a phrase in a named session against one in the local one.
pub fn routing(executable: Executable, table: &mut Table) {
    let mut client = Client::start(executable);
    start(&mut client, json!({}));
    let (mut routed, mut local) = (Vec::new(), Vec::new());
    for index in 0..400 {
        let source = phrase(index);
        let there = json!({ "source": source, "session": SESSION });
        local.push(timed(|| drop(client.eval(&source))));
        routed.push(timed(|| drop(client.call("eval", there))));
    }
    let what = format!("{} routed eval above a local one: p50", executable.variant);
    let more = quantile(&mut routed, 50) - quantile(&mut local, 50);
    table.limit(&what, more, 0.2);
}

/// (h) a pool whose prewarm takes a second, and what a sibling adds to it.
pub fn pools(executable: Executable, table: &mut Table) {
    let prewarm = prewarm(executable, "let () = Unix.sleepf 1.0");
    let (mut all, mut each) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let up = |pool: usize| {
            let mut client = Client::start(executable);
            client.eval("1");
            timed(|| {
                drop(start(
                    &mut client,
                    json!({ "prewarm": prewarm, "pool": pool }),
                ))
            })
        };
        let (one, many) = (up(1), up(POOL));
        all.push(many);
        each.push((many - one) / (POOL - 1) as f64);
    }
    let variant = executable.variant;
    let what = format!("{variant} pool of {POOL}, prewarm of 1 s");
    table.limit(&what, quantile(&mut all, 50), 1300.0);
    let what = format!("{variant} pool: a sibling");
    table.limit(&what, quantile(&mut each, 50), 30.0);
}

/// (i) the memory of a pool with a heap of 200 MB, against that of one session.
pub fn memory(executable: Executable, table: &mut Table) {
    let heap = "let big = List.init 8_000_000 (fun i -> i);; let () = Gc.compact ()";
    let prewarm = prewarm(executable, heap);
    let up = |pool: usize| {
        let mut client = Client::start(executable);
        start(&mut client, json!({ "prewarm": prewarm, "pool": pool }));
        for number in 1..pool {
            let session = format!("{SESSION}.{number}");
            let reply = client.call(
                "eval",
                json!({ "source": "List.hd big", "session": session }),
            );
            assert_eq!(reply.0["value_repr"], "0");
        }
        children(client.child.id()).map(proportional).sum::<f64>()
    };
    let (one, many) = (up(1), up(POOL));
    let what = format!(
        "{} memory of {POOL} sessions with a heap of 200 MB (MB)",
        executable.variant
    );
    table.ratio(&what, many, one, Some(1.3));
}

/// (j) back to a checkpoint of many phrases.
pub fn restore(executable: Executable, table: &mut Table) {
    let count = if executable.variant == "native" {
        500
    } else {
        10_000
    };
    let mut client = Client::start(executable);
    start(&mut client, json!({}));
    for stretch in 0..count / 50 {
        let sources: Vec<_> = (0..50).map(|i| phrase(stretch * 50 + i)).collect();
        client.call(
            "eval_batch",
            json!({ "sources": sources, "session": SESSION }),
        );
    }
    client.call(
        "checkpoint",
        json!({ "label": "bench", "session": SESSION }),
    );
    let mut times = Vec::new();
    for _ in 0..20 {
        times.push(timed(|| {
            let back = json!({ "label": "bench", "session": SESSION });
            let (reply, is_error) = client.call("restore", back);
            assert!(!is_error && reply["notice"].as_str().unwrap().starts_with("went back"));
        }));
    }
    let what = format!(
        "{} restore of {count} phrases, named session",
        executable.variant
    );
    table.limit(&what, quantile(&mut times, 50), 30.0);
}

fn start(client: &mut Client, mut arguments: Value) -> Value {
    arguments["session"] = SESSION.into();
    // What an earlier run was made with is no longer wanted.
    client.call(
        "stop_local_session",
        json!({ "session": SESSION, "forget": true }),
    );
    let (reply, is_error) = client.call("start_local_session", arguments);
    assert!(!is_error, "{reply}");
    reply
}

fn prewarm(executable: Executable, source: &str) -> String {
    let path = format!("{HOME}/prewarm-{}.ml", executable.variant);
    fs::write(&path, format!("#require \"unix\";;\n{source}\n")).expect("written");
    path
}

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("a process");
    let pids: Vec<u32> = list.split_whitespace().flat_map(str::parse).collect();
    pids.into_iter()
}

/// Megabytes of a process's own, and its share of those that it has with others.
fn proportional(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
