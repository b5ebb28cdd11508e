//! The process of a named session: one thread, which takes jobs from its socket one after
//! the other. Deadlines and interrupts are its parent's business.
//!
//! A request is a line: the name of a job and what it is given as JSON, or `fork`, `part` or
//! `join`. The reply is a line that begins with `done`; see `evaluator/conversation.rs`,
//! the other end.

mod fork;
mod wire;

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setpgid,
    setrlimit,
};
use serde::{Deserialize, Serialize};

use crate::bridge::Runtime;
use crate::capture::Capture;
use crate::eval_thread::EvalThread;
use crate::mutex::lock;
use crate::phrase_log::{News, PhraseLog, Place};
use crate::settings::Settings;
use crate::{Variant, crash, descriptors, home, job, limits, shutdown, stdio, user_code};
use fork::{Between, Side};
pub use wire::Wire;

/// The argument that makes a process of this program a worker; not for people.
pub const ARGUMENT: &str = "--worker";

/// What a worker is told before its first job.
#[derive(Debug, Serialize, Deserialize)]
pub struct Join {
    /// The server's process, with which the worker ends.
    pub server: i32,
    /// The name of the file of its own log; without one it goes on without, or with what it
    /// was forked with.
    pub log: Option<PathBuf>,
}

/// Serves the parent on fd 0 until that closes it; returns the process's status.
pub fn run(variant: Variant) -> i32 {
    match serve(variant) {
        Ok(()) => 0,
        Err(problem) => {
            // Fd 2 is captured: the parent reads it.
            eprintln!("topup: {problem}");
            1
        }
    }
}

fn serve(variant: Variant) -> Result<(), String> {
    user_code::none_here();
    home::remember();
    crash::leave_faults();
    crash::take_signals();
    crash::keep_from_exit();
    let _ = deepen_stack();
    limits::remember();
    shutdown::writes_fail()
        .and_then(|()| shutdown::stops_do_nothing())
        .map_err(|e| format!("installing signals: {e}"))?;
    let settings = Settings::from_env()?;
    let (socket, capture) = stdio::take_from_parent().map_err(|e| format!("taking fds: {e}"))?;
    // All that is ours is open, and nothing of user code's.
    descriptors::protect_all().map_err(|e| format!("looking at descriptors: {e}"))?;
    let log = PhraseLog::open(Place::Off);
    let thread = EvalThread::new(Some(capture), settings.inline_max, log);
    let runtime = thread.boot(variant).map_err(|error| error.to_string())?;
    let mut worker = Worker {
        thread,
        forked: false,
        between: None,
        wire: Wire::new(socket),
    };
    worker.announce_on_wire();
    while let Some(line) = runtime
        .idle(|| worker.wire.receive())
        .map_err(|e| format!("reading requests: {e}"))?
    {
        worker
            .request(&line, &runtime)
            .map_err(|e| format!("replying: {e}"))?;
    }
    Ok(())
}

/// C stubs and the bytecode interpreter recurse on the system's stack, which is to be as
/// deep as the eval thread's.
fn deepen_stack() -> io::Result<()> {
    const STACK: u64 = 64 << 20;
    let limit = getrlimit(Resource::Stack);
    let deeper = limit.maximum.map_or(STACK, |maximum| maximum.min(STACK));
    if limit.current.is_some_and(|current| current < deeper) {
        let (current, maximum) = (Some(deeper), limit.maximum);
        setrlimit(Resource::Stack, Rlimit { current, maximum })?;
    }
    Ok(())
}

struct Worker {
    thread: EvalThread,
    /// Whether it began as a copy of another worker.
    forked: bool,
    /// The process between this one and its latest copy, until they part.
    between: Option<Between>,
    wire: Wire,
}

impl Worker {
    fn request(&mut self, line: &[u8], runtime: &Runtime) -> io::Result<()> {
        let (name, given) = split(line);
        // Whatever comes next; nobody waits for a copy that was not asked to part.
        self.between = None;
        let reply = match name {
            "join" => self.join(given).map(|()| "{\"Ok\":null}".into()),
            "fork" => match self.fork(runtime) {
                Ok(Side::Child) => return Ok(()),
                Ok(Side::Parent(between)) => {
                    let reply = format!("{{\"Ok\":{}}}", between.copy);
                    self.between = Some(between);
                    Ok(reply)
                }
                Err(error) => Err(error),
            },
            "part" => Ok("{\"Ok\":null}".into()),
            name => job::run_named(name, given, &mut self.thread, runtime),
        };
        let reply = reply
            .unwrap_or_else(|error| serde_json::json!({ "Err": { "Fault": error } }).to_string());
        let [stdout, stderr] = self.thread.reported();
        // Background threads may have something to announce, but not amid this line.
        let _quiet = announcer();
        self.wire.send(&format!("done {stdout} {stderr} {reply}\n"))
    }

    /// The worker becomes one of `server`'s.
    fn join(&mut self, given: &[u8]) -> Result<(), String> {
        let Join { server, log } =
            serde_json::from_slice(given).map_err(|error| format!("join: {error}"))?;
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| e.to_string())?;
        // A copy is still in the group of its original, which may be ended with all its own.
        setpgid(None, None).map_err(|e| e.to_string())?;
        if getppid() != Pid::from_raw(server) {
            return Err("the server has ended".into());
        }
        if self.forked && log.is_none() {
            self.thread.log().detach();
        }
        if let Some(name) = log {
            if self.forked {
                self.thread.log().part(name);
            } else {
                *self.thread.log() = PhraseLog::open(Place::Worker(name));
            }
        }
        Ok(())
    }

    /// Makes a copy of this process, which serves the socket that came with the request and
    /// prints to the two files that did.
    fn fork(&mut self, runtime: &Runtime) -> Result<Side, String> {
        let [socket, stdout, stderr] = self.wire.descriptors()?;
        runtime.flush();
        let side = fork::fork(runtime)?;
        if let Side::Child = side {
            crash::keep_from_exit();
            self.forked = true;
            self.wire = Wire::new(socket);
            self.announce_on_wire();
            let capture = Capture::of(stdout.into(), stderr.into());
            self.thread.capture = Some(capture.map_err(|e| format!("capturing output: {e}"))?);
        }
        Ok(side)
    }

    fn announce_on_wire(&self) {
        if let Ok(wire) = self.wire.writer() {
            let announce = move |text: &str| drop(wire.send(&format!("{text}\n")));
            *announcer() = Some(Box::new(announce));
        }
    }
}

fn split(line: &[u8]) -> (&str, &[u8]) {
    let end = line.iter().position(|byte| *byte == b' ');
    let end = end.unwrap_or(line.len());
    let name = std::str::from_utf8(&line[..end]).unwrap_or_default();
    (name, line.get(end + 1..).unwrap_or_default())
}

type Announce = Box<dyn Fn(&str) + Send>;

static ANNOUNCER: Mutex<Option<Announce>> = Mutex::new(None);

fn announcer() -> std::sync::MutexGuard<'static, Option<Announce>> {
    lock(&ANNOUNCER)
}

/// Tells the parent, if this is a worker, that a replay is at its phrase `number`.
pub fn announce_phrase(number: usize) {
    if let Some(announce) = &*announcer() {
        announce(&format!("at {number}"));
    }
}

/// Tells the parent, if this is a worker, that a process group has begun or ended.
pub fn announce_group(id: i32, lives: bool) {
    if let Some(announce) = &*announcer() {
        announce(&format!("{} {id}", if lives { "group" } else { "gone" }));
    }
}

/// Tells the parent, if this is a worker, what of its phrase log no file holds.
pub fn announce_records(news: News) {
    if let Some(announce) = &*announcer() {
        announce(&news.line());
    }
}
