//! A call's time with a session's toplevel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Journal, Line, Session, lock};
use crate::bytes::Bytes;
use crate::checkpoint::Checkpoints;
use crate::error::EvaluatorError;
use crate::evaluator::{Evaluated, Evaluation, Run};
use crate::job::{Eval, Job, Log, Reset, Restore};
use crate::overflow::Cut;
use crate::transport::Room;

/// A call's place in the queue.
#[derive(Debug, Clone, Default)]
pub struct Ticket {
    /// Cancelled when the client takes the call back.
    pub cancel: CancellationToken,
    /// Whether its turn with the local toplevel has come: it may have run user code.
    begun: Arc<AtomicBool>,
    /// For what the client has not read: while there is none, no turn begins.
    pub room: Room,
    /// What a worker has said to it.
    pub journal: Arc<Journal>,
    /// The host that it was sent to.
    away: Arc<OnceLock<String>>,
}

impl Ticket {
    /// Of a call that is new, or was in flight when the image before this one ended.
    pub fn new(room: Room, replies: Option<Vec<Line>>) -> Ticket {
        Ticket {
            room,
            journal: Arc::new(replies.map_or_else(Journal::default, Journal::resumed)),
            ..Ticket::default()
        }
    }

    /// Its turn with the local toplevel has come.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// It is sent to a host.
    pub fn send_to(&self, host: &str) {
        let _ = self.away.set(host.to_string());
    }

    /// The host that it was sent to, where it may have run.
    pub fn sent_to(&self) -> Option<&str> {
        self.away.get().map(String::as_str)
    }
}

/// A caller's time with the toplevel.
pub struct Turn<'a> {
    pub(super) session: &'a Session,
    pub(super) stop: CancellationToken,
    pub(super) _place: tokio::sync::MutexGuard<'a, ()>,
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
        let source = Bytes(source);
        self.run_within(None, Restore { source }).await
    }

    /// A fresh toplevel with a new phrase log.
    pub async fn reset(&self) -> Result<Run<()>, EvaluatorError> {
        self.forget_prewarm();
        self.run_within(None, Reset {}).await
    }

    fn forget_prewarm(&self) {
        if let Some(named) = &self.session.named {
            named.forget_prewarm();
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
        self.session.is_used.store(true, Ordering::Relaxed);
        let run = evaluator.run(job, limit, self.stopped()).await;
        let run = run.map_err(|error| self.ended_by_call(error))?;
        // Said with the next report of an evaluation, which often is this one's.
        if let Some(notice) = &run.notice {
            self.session.notify(notice.clone());
        }
        Ok(run)
    }

    /// Does what runs no user code.
    pub async fn ask<J: Job>(&self, job: J) -> Result<J::Done, EvaluatorError> {
        let answer = self.session.evaluator().ask(job, self.stopped()).await;
        answer.map_err(|error| self.ended_by_call(error))
    }

    /// The end of a process that a call has stopped is no crash.
    fn ended_by_call(&self, mut error: EvaluatorError) -> EvaluatorError {
        if let EvaluatorError::Ended(ended) = &mut error
            && let Some(end) = self.session.stopped.get()
        {
            ended.0 = *end;
        }
        error
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

    /// What is cancelled then.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
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
