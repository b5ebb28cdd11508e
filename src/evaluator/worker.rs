//! The toplevel of a worker process: what its parent has of it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::sync::{mpsc, oneshot, watch};

use super::conversation::{Conversation, Outstanding, Request};
use super::{Evaluator, ended};
use crate::capture::Meter;
use crate::cpu::ThreadId;
use crate::end::End;
use crate::error::EvaluatorError;
use crate::job::Job;
use crate::phrase_log::Unfiled;
use crate::process_group;
use crate::session::{Journal, Line};
use crate::worker::Join;

/// A worker process, which is killed when this is dropped.
pub struct Worker {
    pid: Pid,
    meter: Meter,
    requests: mpsc::UnboundedSender<Request>,
    conversation: Arc<Conversation>,
    ended: watch::Receiver<Option<End>>,
    /// Whether it was killed because nothing else stopped it.
    given_up: AtomicBool,
    /// Who makes a copy of it.
    pub(super) copying: tokio::sync::Mutex<()>,
}

impl Worker {
    /// The worker `pid`, a child of this process, behind the other end of `socket`, once it
    /// has joined. To be called inside the tokio runtime.
    pub async fn join(
        socket: OwnedFd,
        meter: Meter,
        join: &Join,
        pid: Pid,
    ) -> Result<Worker, EvaluatorError> {
        let failed =
            |error: io::Error| EvaluatorError::Fault(format!("starting a worker: {error}"));
        let mut unwatched = Unwatched::remember(pid);
        let conversation = Arc::new(Conversation::new(socket, meter.clone()).map_err(failed)?);
        let given = serde_json::to_string(join).map_err(|e| failed(e.into()))?;
        let line = format!("join {given}\n");
        let reply = conversation.join(line.as_bytes()).await;
        let worker = Worker::watch(pid, meter, conversation).map_err(failed)?;
        unwatched.0 = None;
        match reply {
            Ok(reply) => answer(&reply).map(|()| worker),
            // It has ended, or will: nobody is left whom it could serve.
            Err(_) => {
                worker.kill();
                worker.gone().await;
                Err(over(worker.end().unwrap_or(End::Exit(0)), &worker.meter))
            }
        }
    }

    /// Watches a worker that has joined, and is among those that end with this process.
    pub fn watch(pid: Pid, meter: Meter, conversation: Arc<Conversation>) -> io::Result<Worker> {
        let ended = super::reaper::watch(pid, Arc::clone(&conversation))?;
        Ok(Worker::of(pid, meter, conversation, ended))
    }

    fn of(
        pid: Pid,
        meter: Meter,
        conversation: Arc<Conversation>,
        ended: watch::Receiver<Option<End>>,
    ) -> Worker {
        let (requests, to_do) = mpsc::unbounded_channel();
        tokio::spawn(Arc::clone(&conversation).go_on(to_do, ended.clone(), pid));
        Worker {
            pid,
            meter,
            requests,
            conversation,
            ended,
            given_up: AtomicBool::new(false),
            copying: Default::default(),
        }
    }

    /// A worker that ended before this image of the server's process began.
    pub fn that_has_ended(end: End, unfiled: Unfiled) -> io::Result<Worker> {
        let (socket, _) = std::os::unix::net::UnixStream::pair()?;
        let (meter, _) = Meter::start()?;
        let conversation = Conversation::new(socket.into(), meter.clone())?;
        let conversation = Arc::new(conversation.knowing(unfiled));
        let ended = watch::channel(Some(end)).1;
        Ok(Worker::of(getpid(), meter, conversation, ended))
    }

    pub fn send<J: Job>(
        &self,
        job: J,
    ) -> Result<oneshot::Receiver<Result<J::Done, EvaluatorError>>, EvaluatorError> {
        let given = serde_json::to_string(&job)
            .map_err(|error| EvaluatorError::Fault(format!("{}: {error}", J::NAME)))?;
        let line = format!("{} {given}\n", J::NAME);
        self.conversation.begin_replay();
        self.request(line, Vec::new(), Outstanding::Job, |reply| answer(&reply))
    }

    /// What the call whose turn it is has been told; until the next one's turn.
    pub fn keep(&self, journal: &Arc<Journal>) {
        self.conversation.keep(journal);
    }

    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Has the worker do what `line` says; `read` understands the reply.
    pub(super) fn request<T: Send + 'static>(
        &self,
        line: String,
        descriptors: Vec<OwnedFd>,
        what: Outstanding,
        read: impl FnOnce(Line) -> Result<T, EvaluatorError> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, EvaluatorError>>, EvaluatorError> {
        let (reply, receiver) = oneshot::channel();
        let meter = self.meter.clone();
        let request = Request {
            line: line.into_bytes(),
            descriptors,
            what,
            reply: Box::new(move |result| {
                let result = match result {
                    Ok(line) => read(line),
                    Err(end) => Err(over(end, &meter)),
                };
                let _ = reply.send(result);
            }),
        };
        self.requests.send(request).map_err(|_| ended())?;
        Ok(receiver)
    }

    pub fn interrupt(&self) {
        if self.is_alive() {
            let _ = kill_process(self.pid, Signal::INT);
        }
    }

    /// Ends it, and what is in its process group.
    pub fn kill(&self) {
        if self.is_alive() {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Ends it because nothing else stops it.
    pub fn give_up(&self) {
        self.given_up.store(self.is_alive(), Ordering::Relaxed);
        self.kill();
    }

    pub fn was_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    pub fn is_alive(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        *self.ended.borrow()
    }

    /// Completes when it has ended and was waited for.
    pub async fn gone(&self) {
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Its one thread.
    pub fn thread(&self) -> ThreadId {
        ThreadId {
            process: self.pid(),
            thread: self.pid(),
        }
    }

    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// The number of the phrase that its latest job, a replay, came to.
    pub fn replaying(&self) -> Option<usize> {
        self.conversation.replaying()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that has been started and is not watched yet.
struct Unwatched(Option<Pid>);

impl Unwatched {
    fn remember(pid: Pid) -> Unwatched {
        process_group::remember(pid.as_raw_nonzero().get());
        Unwatched(Some(pid))
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process(pid, Signal::KILL);
            process_group::wait_for([pid]);
            process_group::forget(pid.as_raw_nonzero().get());
        }
    }
}

/// The process has come to its end in a job.
fn over(end: End, meter: &Meter) -> EvaluatorError {
    let (stdout, stderr) = meter.unreported(SHOWN);
    EvaluatorError::Ended(Box::new((end, stdout, stderr)))
}

/// Bytes of what a process printed before its end that a reply shows.
const SHOWN: usize = 10_000;

/// What a job came to.
pub(super) fn answer<T: serde::de::DeserializeOwned>(line: &Line) -> Result<T, EvaluatorError> {
    let result: Result<Result<T, EvaluatorError>, _> = serde_json::from_slice(line);
    result.unwrap_or_else(|error| Err(EvaluatorError::Fault(format!("a worker's reply: {error}"))))
}

impl Evaluator {
    /// Whether its toplevel is still there.
    pub fn is_alive(&self) -> bool {
        self.worker().is_none_or(Worker::is_alive)
    }
}
