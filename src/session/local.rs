//! The toplevel in this process, one caller at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::Checkpoints;
use crate::crash::End;
use crate::error::EvaluatorError;
use crate::evaluator::{EvalThread, Evaluated, Evaluation, Evaluator, Run, Runtime};
use crate::outcome::Recovered;
use crate::overflow::Cut;
use crate::reexec::Handover;
use crate::tools::{Answer, CrashReport, Failure, Phase, Printed};
use crate::transport::Room;

/// Queues callers for the evaluator, in the order in which they came.
pub struct Local {
    evaluator: Evaluator,
    queue: tokio::sync::Mutex<()>,
    /// What stops the turn that is on; `None` between turns.
    current: Mutex<Option<CancellationToken>>,
    /// What the next evaluation is to say of the session.
    notice: Mutex<Option<String>>,
}

impl Local {
    pub fn new(evaluator: Evaluator) -> Local {
        Local {
            evaluator,
            queue: Default::default(),
            current: Default::default(),
            notice: Default::default(),
        }
    }

    /// Waits for the caller's turn; fails if `cancel` comes first. Nobody else evaluates
    /// until the turn is dropped.
    pub async fn turn(&self, ticket: &Ticket) -> Result<Turn<'_>, Failure> {
        let place = tokio::select! {
            biased;
            _ = ticket.cancel.cancelled() => {
                return Err(Failure::new(Phase::Route, "cancelled before it began"));
            }
            place = self.place(&ticket.room) => place,
        };
        let stop = ticket.cancel.child_token();
        ticket.begun.store(true, Ordering::Relaxed);
        *self.current() = Some(stop.clone());
        Ok(Turn {
            session: self,
            stop,
            _place: place,
        })
    }

    /// The first place in the queue, once the client reads what it was told.
    async fn place(&self, room: &Room) -> tokio::sync::MutexGuard<'_, ()> {
        let place = self.queue.lock().await;
        room.wait().await;
        place
    }

    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    /// The answer to the call that ran when the process came to its `end`.
    pub fn fallen(&self, end: End) -> Answer {
        let (stdout, stderr) = self.evaluator.printed();
        Answer::new(&CrashReport::new(end, Printed::new(stdout, stderr)), true)
    }

    /// Begins to run the phrase log again after the process came to its end. No turn comes
    /// before that is over; the next evaluation's notice says how it went.
    pub async fn begin_recovery(self: &Arc<Self>, handover: &Handover) {
        let session = Arc::clone(self);
        let (end, skipped) = (handover.end.clone(), handover.skipped.clone());
        let starts_empty = handover.recent_ends() >= TOO_MANY;
        let (begun, has_begun) = oneshot::channel();
        tokio::spawn(async move {
            let _place = session.queue.lock().await;
            let _ = begun.send(());
            let notice = if starts_empty {
                session.start_empty(&end).await
            } else {
                match session.evaluator.recover(skipped.clone()).await {
                    Ok(recovered) => recovery(&end, &skipped, &recovered),
                    Err(error) => format!("{end}; the session's state is lost: {error}"),
                }
            };
            session.notify(notice);
        });
        let _ = has_begun.await;
    }

    async fn start_empty(&self, end: &str) -> String {
        let reset = self.evaluator.reset(std::future::pending()).await;
        let kept = match reset {
            Ok(_) => "the old phrase log is kept".to_string(),
            Err(error) => error.to_string(),
        };
        format!(
            "{end}; that was the {TOO_MANY}rd time within a minute, so the session starts empty ({kept})"
        )
    }

    /// Says something with the next evaluation.
    pub fn notify(&self, text: String) {
        let mut notice = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
        *notice = Some(match notice.take() {
            Some(earlier) => earlier + "\n" + &text,
            None => text,
        });
    }

    /// What could not be stored of a run is said with the next report of an evaluation,
    /// which often is its own.
    fn noticing<T>(&self, run: Run<T>) -> Run<T> {
        if let Some(notice) = &run.notice {
            self.notify(notice.clone());
        }
        run
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

    fn current(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's place in the queue.
#[derive(Debug, Clone, Default)]
pub struct Ticket {
    /// Cancelled when the client takes the call back.
    pub cancel: CancellationToken,
    /// Whether its turn has come: it may have run user code.
    begun: Arc<AtomicBool>,
    /// For what the client has not read: while there is none, no turn begins.
    room: Room,
}

impl Ticket {
    pub fn new(room: Room) -> Ticket {
        Ticket {
            room,
            ..Ticket::default()
        }
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

/// A caller's time with the toplevel.
pub struct Turn<'a> {
    session: &'a Local,
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
        let cancelled = self.stop.cancelled();
        let run = self.session.evaluator.eval(source, timeout, cancelled);
        Ok(self.session.noticing(run.await?))
    }

    /// Runs the source of a checkpoint; see [`Evaluator::restore`].
    pub async fn restore(
        &self,
        source: Vec<u8>,
    ) -> Result<Run<(Evaluated, usize)>, EvaluatorError> {
        let cancelled = self.stop.cancelled();
        let run = self.session.evaluator.restore(source, cancelled);
        Ok(self.session.noticing(run.await?))
    }

    /// A fresh toplevel; see [`Evaluator::reset`].
    pub async fn reset(&self) -> Result<Run<()>, EvaluatorError> {
        let run = self.session.evaluator.reset(self.stop.cancelled());
        Ok(self.session.noticing(run.await?))
    }

    /// Runs what may run user code, within the default time limit.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut EvalThread, &Runtime) -> Result<Run<T>, EvaluatorError> + Send + 'static,
    ) -> Result<Run<T>, EvaluatorError> {
        self.run_within(self.session.evaluator.limit(), work).await
    }

    /// The same, with a time limit of the caller's.
    pub async fn run_within<T: Send + 'static>(
        &self,
        limit: Option<Duration>,
        work: impl FnOnce(&mut EvalThread, &Runtime) -> Result<Run<T>, EvaluatorError> + Send + 'static,
    ) -> Result<Run<T>, EvaluatorError> {
        let cancelled = self.stop.cancelled();
        let run = self.session.evaluator.run(limit, cancelled, work);
        Ok(self.session.noticing(run.await?))
    }

    /// The text of the phrase log and its number of phrases.
    pub fn log(&self) -> Result<(Vec<u8>, usize), EvaluatorError> {
        self.session.evaluator.log()
    }

    /// What the caller must be told of the session; once.
    pub fn notice(&self) -> Option<String> {
        let notice = &self.session.notice;
        notice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Completes when somebody asks this turn to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await
    }

    /// A text as a reply shows it.
    pub fn cut(&self, name: &str, text: String) -> Cut {
        self.session.evaluator.cut(name, text)
    }

    pub fn checkpoints(&self) -> Checkpoints {
        self.session.evaluator.checkpoints()
    }

    /// Asks the toplevel something that runs no user code.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Runtime) -> Result<T, String> + Send + 'static,
    ) -> Result<T, EvaluatorError> {
        self.session.evaluator.ask(question).await
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.session.current() = None;
    }
}

/// So many ends of the process within a minute are too many.
const TOO_MANY: usize = 3;

/// How the session came back.
fn recovery(end: &str, skipped: &[usize], recovered: &Recovered) -> String {
    let Recovered { phrases, lost } = recovered;
    let mut text = format!(
        "{end}; the session was restored by running its {phrases} phrases again (mutable state is \
         as they left it, archives that were loaded by hand must be loaded again)"
    );
    for number in skipped {
        text += &format!("\nnot restored: phrase {number}, which ended the process");
    }
    for (number, error) in lost {
        let says = |line: &&str| line.starts_with("Error") || line.starts_with("Exception");
        let error = error.lines().find(says).unwrap_or(error);
        text += &format!("\nnot restored: phrase {number}: {error}");
    }
    text
}
