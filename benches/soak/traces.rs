//! What a process leaves in memory and on disk.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::support;

pub struct Traces {
    pub megabytes: f64,
    descriptors: usize,
    threads: usize,
    /// In `~/.topup`: spilled texts, logs, checkpoints.
    files: [usize; 3],
    temporary: usize,
}

/// What there may be of each: what is kept of spilled texts and of old logs, the log that
/// is on, and the one checkpoint.
const MOST_FILES: [usize; 3] = [100, 101, 1];
/// One of those that write checkpoints may not have ended yet.
const MORE_THREADS: usize = 1;
/// The next image of a crashed process may have a descriptor more.
const MORE_DESCRIPTORS: usize = 1;

impl Traces {
    pub fn of(process: u32, home: &Path) -> Traces {
        let proc = Path::new("/proc").join(process.to_string());
        let topup = home.join(".topup");
        Traces {
            megabytes: support::resident(process),
            descriptors: entries(&proc.join("fd")),
            threads: entries(&proc.join("task")),
            files: ["overflow", "logs", "checkpoints"].map(|name| entries(&topup.join(name))),
            temporary: entries(&home.join("tmp")),
        }
    }

    /// What is there afterwards and should not be.
    pub fn left_behind(&self, after: &Traces) -> Vec<String> {
        let mut problems = Vec::new();
        let mut limit = |what: &str, now: usize, most: usize| {
            if now > most {
                problems.push(format!("{now} {what}, at most {most} expected"));
            }
        };
        limit(
            "descriptors",
            after.descriptors,
            self.descriptors + MORE_DESCRIPTORS,
        );
        limit("threads", after.threads, self.threads + MORE_THREADS);
        limit("spilled texts", after.files[0], MOST_FILES[0]);
        limit("logs", after.files[1], MOST_FILES[1]);
        limit("checkpoints", after.files[2], MOST_FILES[2]);
        limit("temporary files", after.temporary, 0);
        problems
    }
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [spilled, logs, checkpoints] = self.files;
        write!(
            f,
            "{:.1} MB, {} descriptors, {} threads, {spilled} spilled texts, {logs} logs, \
             {checkpoints} checkpoints, {} temporary files",
            self.megabytes, self.descriptors, self.threads, self.temporary
        )
    }
}
