//! How much of a processor a thread gets: on a busy machine, less than it wants.

use std::fs;
use std::time::Duration;

/// A thread of this process or another.
#[derive(Debug, Clone, Copy)]
pub struct ThreadId {
    pub process: i32,
    pub thread: i32,
}

/// A thread's share until now.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Whether it runs or would if it could, as opposed to waiting for something.
    pub is_running: bool,
    /// What it had in all.
    pub time: Duration,
}

impl ThreadId {
    /// Reads `/proc` (the state in `stat`, the nanoseconds in `schedstat`). `None` if the
    /// thread is gone or the kernel does not count.
    pub fn share(self) -> Option<Share> {
        let folder = format!("/proc/{}/task/{}", self.process, self.thread);
        let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
        // Behind the name, which is in parentheses and may hold some.
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        let counts = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
        let nanoseconds = counts.split(' ').next()?.parse().ok()?;
        Some(Share {
            is_running: state == 'R',
            time: Duration::from_nanos(nanoseconds),
        })
    }
}
