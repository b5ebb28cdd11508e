//! A session: a toplevel, one caller at a time.

mod frozen;
mod host;
mod hosts;
mod journal;
mod kept;
mod launch;
mod left;
mod link;
mod local;
mod named;
mod peer;
mod pool;
mod recipes;
mod registry;
mod ssh;
mod ticket;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use frozen::Frozen;
pub use host::Host;
pub use hosts::{HostListed, Hosts, HostsLeft, Known};
pub use journal::{Journal, Line};
pub use launch::Launcher;
pub use left::SessionsLeft;
pub use local::recovery;
pub use recipes::{Changes, Recipe};
pub use registry::{Listed, Registry, Started};
pub use ticket::Ticket;

use crate::checkpoint::Checkpoints;
use crate::error::EvaluatorError;
use crate::evaluator::{Evaluated, Evaluation, Evaluator, Run};
use crate::job::{Eval, Job, Log, Reset, Restore};
use crate::overflow::Cut;
use crate::tools::{Failure, Phase};
use crate::transport::Room;
use named::Named;

/// Queues callers for a toplevel, in the order in which they came.
pub struct Session {
    evaluator: Mutex<Arc<Evaluator>>,
    /// What there is besides if it is not the local one.
    named: Option<Named>,
    queue: tokio::sync::Mutex<()>,
    /// What stops the turn that is on; `None` between turns.
    current: Mutex<Option<CancellationToken>>,
    /// What the next evaluation is to say of the session.
    notice: Mutex<Option<String>>,
}

impl Session {
    /// The toplevel in this process.
    pub fn local(evaluator: Evaluator) -> Session {
        Session::with(Arc::new(evaluator), None)
    }

    /// The toplevel of a worker.
    fn named(evaluator: Arc<Evaluator>, named: Named) -> Session {
        Session::with(evaluator, Some(named))
    }

    fn with(evaluator: Arc<Evaluator>, named: Option<Named>) -> Session {
        Session {
            evaluator: Mutex::new(evaluator),
            named,
            queue: Default::default(),
            current: Default::default(),
            notice: Default::default(),
        }
    }

    /// Waits for the caller's turn; fails if the ticket is cancelled first. Nobody else
    /// evaluates until the turn is dropped. A toplevel that has ended is brought back.
    pub async fn turn(&self, ticket: &Ticket) -> Result<Turn<'_>, Failure> {
        let place = tokio::select! {
            biased;
            _ = ticket.cancel.cancelled() => {
                return Err(Failure::new(Phase::Route, "cancelled before it began"));
            }
            place = self.place(&ticket.room) => place,
        };
        let stop = ticket.cancel.child_token();
        *self.current() = Some(stop.clone());
        let turn = Turn {
            session: self,
            stop,
            _place: place,
        };
        match &self.named {
            None => ticket.begin(),
            Some(named) => {
                if let Some(failure) = self.ended_in(ticket) {
                    return Err(failure);
                }
                named.bring_back(&turn).await?;
                if let Some(worker) = self.evaluator().worker() {
                    ticket.journal.begin();
                    worker.keep(&ticket.journal);
                }
            }
        }
        Ok(turn)
    }

    /// What a call gets that was in flight when this process went on in another image, if its
    /// worker has ended since.
    fn ended_in(&self, ticket: &Ticket) -> Option<Failure> {
        let evaluator = self.evaluator();
        let end = evaluator.worker()?.end()?;
        ticket.journal.is_resumed().then(|| {
            let (stdout, stderr) = evaluator.printed();
            EvaluatorError::Ended(Box::new((end, stdout, stderr))).into()
        })
    }

    /// The first place in the queue, once the client reads what it was told.
    async fn place(&self, room: &Room) -> tokio::sync::MutexGuard<'_, ()> {
        let place = self.queue.lock().await;
        room.wait().await;
        place
    }

    pub fn name(&self) -> &str {
        self.named.as_ref().map_or("local", |named| &named.name)
    }

    pub fn evaluator(&self) -> Arc<Evaluator> {
        Arc::clone(&lock(&self.evaluator))
    }

    /// The session goes on with another toplevel; the old one ends.
    fn go_on_with(&self, evaluator: Evaluator) {
        *lock(&self.evaluator) = Arc::new(evaluator);
    }

    /// Says something with the next evaluation.
    pub fn notify(&self, text: String) {
        let mut notice = lock(&self.notice);
        *notice = Some(match notice.take() {
            Some(before) => format!("{before}\n{text}"),
            None => text,
        });
    }

    /// Interrupts the turn that is on. False if there is none.
    pub fn cancel(&self) -> bool {
        match self.current().as_ref() {
            Some(stop) => {
                stop.cancel();
                true
            }
            None => false,
        }
    }

    /// Whether a turn is on.
    pub fn is_busy(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        lock(&self.current)
    }
}

/// A caller's time with the toplevel.
pub struct Turn<'a> {
    session: &'a Session,
    stop: CancellationToken,
    _place: tokio::sync::MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Runs `source`; see [`Evaluator::eval`].
    pub async fn eval(
        &self,
        source: String,
        timeout: Option<Duration>,
    ) -> Result<Evaluation, EvaluatorError> {
        let evaluator = self.session.evaluator();
        let limit = timeout.or(evaluator.limit());
        self.run_within(limit, Eval { source }).await
    }

    /// Runs the source of a checkpoint in a fresh toplevel; also returns how many of its
    /// phrases succeeded. The phrase log then holds those.
    pub async fn restore(
        &self,
        source: Vec<u8>,
    ) -> Result<Run<(Evaluated, usize)>, EvaluatorError> {
        self.forget_prewarm();
        let source = crate::bytes::Bytes(source);
        self.run_within(None, Restore { source }).await
    }

    /// A fresh toplevel with a new phrase log.
    pub async fn reset(&self) -> Result<Run<()>, EvaluatorError> {
        self.forget_prewarm();
        self.run_within(None, Reset {}).await
    }

    fn forget_prewarm(&self) {
        if let Some(named) = &self.session.named {
            named.set_prewarmed(None);
        }
    }

    /// Does what may run user code, within the default time limit.
    pub async fn run<T, J: Job<Done = Run<T>>>(&self, job: J) -> Result<Run<T>, EvaluatorError> {
        let limit = self.session.evaluator().limit();
        self.run_within(limit, job).await
    }

    /// The same, with a time limit of the caller's.
    pub async fn run_within<T, J: Job<Done = Run<T>>>(
        &self,
        limit: Option<Duration>,
        job: J,
    ) -> Result<Run<T>, EvaluatorError> {
        let evaluator = self.session.evaluator();
        let run = evaluator.run(job, limit, self.stopped()).await?;
        // Said with the next report of an evaluation, which often is this one's.
        if let Some(notice) = &run.notice {
            self.session.notify(notice.clone());
        }
        Ok(run)
    }

    /// Does what runs no user code.
    pub async fn ask<J: Job>(&self, job: J) -> Result<J::Done, EvaluatorError> {
        self.session.evaluator().ask(job).await
    }

    /// The text of the phrase log and its number of phrases.
    pub async fn log(&self) -> Result<(Vec<u8>, usize), EvaluatorError> {
        let (log, phrases) = self.ask(Log {}).await?;
        Ok((log.0, phrases))
    }

    /// What the caller must be told of the session; once.
    pub fn notice(&self) -> Option<String> {
        lock(&self.session.notice).take()
    }

    /// Completes when somebody asks this turn to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await
    }

    /// A text as a reply shows it.
    pub fn cut(&self, name: &str, text: String) -> Cut {
        self.session.evaluator().cut(name, text)
    }

    pub fn checkpoints(&self) -> Checkpoints {
        self.session.evaluator().checkpoints()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.session.current() = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
