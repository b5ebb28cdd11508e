//! Programs that topup runs, each in a process group of its own, so that it can be ended
//! with all that it has started, and ends with topup.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::mutex::lock;
use crate::worker;

/// The groups that run now.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// What a program has to end by itself.
const GRACE: Duration = Duration::from_millis(100);

/// A running program. To be waited for, or ended.
pub struct Group {
    child: Child,
}

impl Group {
    /// Starts `command`.
    pub fn spawn(command: &mut Command) -> io::Result<Group> {
        command.process_group(0);
        // Started and listed in one step, so that `end_all` misses none.
        let mut running = running();
        let child = command.spawn()?;
        running.extend(Pid::from_raw(child.id() as i32));
        worker::announce_group(child.id() as i32, true);
        Ok(Group { child })
    }

    /// Its process number, which is its group's.
    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Our ends of its pipes, of those that there are; once.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let child = &mut self.child;
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    }

    /// Waits for the program to end by itself.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        forget(self.id());
        status
    }
}

/// Sends a signal to a group that was not waited for yet.
pub fn signal(id: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(id) {
        // It may have ended a moment ago.
        let _ = kill_process_group(group, signal);
    }
}

/// A group's leader was waited for by other means.
pub fn forget(id: i32) {
    running().retain(|group| Some(*group) != Pid::from_raw(id));
    worker::announce_group(id, false);
}

/// Lists a group that was started by other means, by a worker perhaps.
pub fn remember(id: i32) {
    running().extend(Pid::from_raw(id));
}

/// Whether it is listed.
pub fn runs(id: i32) -> bool {
    running()
        .iter()
        .any(|group| Some(*group) == Pid::from_raw(id))
}

/// Ends what runs and lets nothing more begin; to be called when the process is about to
/// end. Returns what was ended and not waited for.
pub fn end_all() -> Vec<Pid> {
    let running = running();
    for stop in [Signal::TERM, Signal::KILL] {
        for group in running.iter() {
            let _ = kill_process_group(*group, stop);
        }
        if stop == Signal::TERM && !running.is_empty() {
            std::thread::sleep(GRACE);
        }
    }
    let ended = running.clone();
    std::mem::forget(running);
    ended
}

/// Waits for children that have been ended. Who waits for one already may have been faster.
pub fn wait_for(ended: impl IntoIterator<Item = Pid>) {
    for group in ended {
        let _ = waitid(WaitId::Pid(group), WaitIdOptions::EXITED);
    }
}

fn running() -> MutexGuard<'static, Vec<Pid>> {
    lock(&RUNNING)
}
