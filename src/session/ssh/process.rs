//! A running `ssh`, and what it says.

#![allow(unsafe_code, reason = "what the kernel is told between fork and exec")]

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::sync::watch;

use crate::process_group::{self, Group};
use crate::{crash, user_code};

/// Ended when it is dropped.
pub struct Process {
    id: i32,
    heard: watch::Receiver<Heard>,
    told_to_end: AtomicBool,
    /// Open for as long as the far side is to go on.
    _stdin: Option<ChildStdin>,
}

/// What there is to know of it.
#[derive(Debug, Default)]
pub struct Heard {
    /// Its lines on stderr, the latest of them: those of ssh and of the far side.
    pub words: Vec<String>,
    pub stdout: String,
    /// How many of its two outputs have come to their ends.
    ended: usize,
    pub status: Option<ExitStatus>,
}

/// So many lines are kept.
const LINES: usize = 40;
/// So much of a line, and of stdout.
const LENGTH: usize = 4096;
/// Another process may hold its outputs open when it has ended: a master that it left.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What it has to end when it is told to.
const GRACE: Duration = Duration::from_secs(2);

impl Process {
    /// Starts it, with a stdin that stays open. It ends with this process, whatever ends that.
    pub fn start(mut command: Command) -> io::Result<Process> {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        end_with_us(&mut command);
        let (said, heard) = watch::channel(Heard::default());
        let said = Arc::new(said);
        let (started, starts) = mpsc::channel();
        let ends = Arc::clone(&said);
        // To the kernel the thread that starts a process is its parent: it waits here.
        spawn("ssh", move || {
            // A program inherits the signals that its starter leaves to other threads; ssh is to
            // be ended by them.
            crash::take_signals();
            let spawned = Group::spawn(&mut command);
            crash::leave_signals();
            let (mut group, found) = match spawned {
                Ok(mut group) => {
                    let found = (group.id(), group.pipes());
                    (Some(group), Ok(found))
                }
                Err(error) => (None, Err(error)),
            };
            let _ = started.send(found);
            if let Some(group) = &mut group {
                let status = group.wait().unwrap_or_default();
                ends.send_modify(|heard| heard.status = Some(status));
            }
        })?;
        let gone = |_| io::Error::other("the thread that starts it has panicked");
        let (id, (stdin, stdout, stderr)) = starts.recv().map_err(gone)??;
        let process = Process {
            id,
            heard,
            told_to_end: AtomicBool::new(false),
            _stdin: stdin,
        };
        if let Some(stderr) = stderr {
            listen(&said, stderr, |heard, line| {
                if heard.words.len() == LINES {
                    heard.words.remove(0);
                }
                heard.words.push(line);
            })?;
        }
        if let Some(stdout) = stdout {
            listen(&said, stdout, |heard, line| {
                if heard.stdout.len() < LENGTH {
                    heard.stdout += &line;
                    heard.stdout.push('\n');
                }
            })?;
        }
        Ok(process)
    }

    /// Waits for what `look` looks for.
    pub async fn until<T>(&self, mut look: impl FnMut(&Heard) -> Option<T>) -> Option<T> {
        let mut heard = self.heard.clone();
        loop {
            let found = look(&heard.borrow_and_update());
            if found.is_some() {
                return found;
            }
            // Nobody is left to say more.
            heard.changed().await.ok()?;
        }
    }

    /// Completes when it has ended and said all that it had to say.
    pub async fn ended(&self) {
        self.until(|heard| heard.status.map(drop)).await;
        let all = self.until(|heard| (heard.ended == 2).then_some(()));
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
    }

    pub fn is_running(&self) -> bool {
        self.heard.borrow().status.is_none()
    }

    /// Looks at what was heard so far.
    pub fn heard(&self) -> watch::Ref<'_, Heard> {
        self.heard.borrow()
    }

    /// Ends it, with what it has started.
    pub fn end(&self) {
        if !self.is_running() || self.told_to_end.swap(true, Ordering::Relaxed) {
            return;
        }
        process_group::signal(self.id, Signal::TERM);
        let (id, heard) = (self.id, self.heard.clone());
        let stronger = async move {
            tokio::time::sleep(GRACE).await;
            if heard.borrow().status.is_none() {
                process_group::signal(id, Signal::KILL);
            }
        };
        // Without a runtime the whole process ends, and what it has started with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(stronger);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// `kill -9` of this process ends it, too.
fn end_with_us(command: &mut Command) {
    // SAFETY: one system call, on the child alone.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

/// Reads lines in a thread of their own.
fn listen(
    said: &Arc<watch::Sender<Heard>>,
    from: impl Read + Send + 'static,
    add: impl Fn(&mut Heard, String) + Send + 'static,
) -> io::Result<()> {
    let said = Arc::clone(said);
    spawn("ssh's words", move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        // One that is too long comes in pieces: it may have no end.
        while let Ok(1..) = (&mut from).take(LENGTH as u64).read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            said.send_modify(|heard| add(heard, text));
            line.clear();
        }
        said.send_modify(|heard| heard.ended += 1);
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work = || {
        user_code::none_here();
        work()
    };
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(drop)
}
