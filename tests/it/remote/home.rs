//! Homes of users: whoever has one of them is ended with it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::sshd::kill;

/// A home of its own for a user on a machine. When it goes, so does every process that was
/// started with it, in whatever way it may have come loose since.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        Home(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The processes that have it, but for zombies.
    pub fn processes(&self) -> Vec<u32> {
        let ours = format!("HOME={}", self.path().display());
        let has_it = |pid: &u32| {
            let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables
                .split(|byte| *byte == 0)
                .any(|variable| variable == ours.as_bytes())
        };
        let all = fs::read_dir("/proc").expect("processes").flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(has_it).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // One may start another before its own end.
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for process in left {
                kill("KILL", process);
            }
        }
    }
}
