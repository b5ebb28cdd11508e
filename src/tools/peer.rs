//! What a topup on another machine calls, besides the tools that clients see: `_greet`,
//! `_recover`, `_end`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::getpid;
use serde::Serialize;
use serde_json::json;

use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::bytes::Bytes;
use crate::job::Recover;

const HINTS: Hints = Hints {
    read_only: false,
    destructive: true,
    idempotent: false,
};

pub const GREET: Tool = Tool {
    name: "_greet",
    title: "Greet another topup",
    description: "Which process this is, where its phrase log is, how large a file may be.",
    hints: HINTS,
    routed: false,
    fields: &[],
    run: greet,
};

pub const RECOVER: Tool = Tool {
    name: "_recover",
    title: "Recover a session",
    description: "Run the phrase log of a process that has ended.",
    hints: HINTS,
    routed: false,
    fields: &[
        Field {
            name: "log",
            kind: Kind::Text,
            required: true,
            description: "The log's file.",
        },
        Field {
            name: "end",
            kind: Kind::Text,
            required: true,
            description: "What happened.",
        },
    ],
    run: recover,
};

pub const END: Tool = Tool {
    name: "_end",
    title: "End",
    description: "End this process.",
    hints: HINTS,
    routed: false,
    fields: &[],
    run: end,
};

#[derive(Serialize)]
struct GreetReport {
    process: String,
    log: Option<PathBuf>,
    transfer_max: u64,
}

fn greet(call: Call) -> Running {
    Box::pin(async move {
        let report = GreetReport {
            process: process(),
            log: call.session.evaluator().log_path(),
            transfer_max: call.hosts.transfer().max,
        };
        Ok(Answer::new(&report, false))
    })
}

/// A name of this process that no other one has: its number and when it began, on this
/// boot of the machine. A fresh image of the process has the same.
fn process() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, in parentheses, may hold anything; the 22nd is the time.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let begun = after.split_whitespace().nth(19).unwrap_or_default();
    format!("{}-{begun}-{}", getpid().as_raw_nonzero(), boot.trim())
}

fn recover(mut call: Call) -> Running {
    Box::pin(async move {
        let path = PathBuf::from(call.arguments.required("log"));
        let end = call.arguments.required("end");
        let _turn = call.session.turn(&call.ticket).await?;
        let path = moved(path, call.session.evaluator().log_path());
        if call.session.is_used() {
            let path = path.display();
            let notice = format!(
                "{end}, which somebody has used already, so the phrase log was not run again \
                 there; #use {:?} runs it",
                path.to_string()
            );
            return Ok(Answer::new(&json!({ "notice": notice }), false));
        }
        let log = fs::read(&path).map_err(|error| {
            Failure::new(Phase::Log, format!("its log {}: {error}", path.display()))
        })?;
        let recover = Recover {
            log: Some(Bytes(log)),
            done: 0,
            skip: Vec::new(),
        };
        let recovered = call.session.run_again(recover).await?;
        let notice = crate::session::recovery(&end, 0, &[], &recovered);
        Ok(Answer::new(&json!({ "notice": notice }), false))
    })
}

/// Where the log that was at `path` is now: this process's own may have taken its place.
fn moved(path: PathBuf, ours: Option<PathBuf>) -> PathBuf {
    if ours.as_deref() != Some(&path) {
        return path;
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return path;
    };
    let prefix = format!("{}.", name.to_string_lossy());
    let aside = |other: &Path| {
        let name = other.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(&prefix).map(str::to_string);
        number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let asides = files.map(|file| file.path()).filter(|file| aside(file));
    let age = |file: &PathBuf| fs::metadata(file).and_then(|m| m.modified()).ok();
    asides.max_by_key(age).unwrap_or(path)
}

fn end(_: Call) -> Running {
    Box::pin(async move {
        // By another process: a signal that a process sends itself is a crash of user code. The
        // caller learns it by the end of the connection.
        let ended = Command::new("sh")
            .args(["-c", "kill -s TERM \"$PPID\""])
            .stdin(Stdio::null())
            .spawn();
        ended.map_err(|error| Failure::new(Phase::Connect, format!("ending it: {error}")))?;
        Ok(Answer::new(&json!({}), false))
    })
}
