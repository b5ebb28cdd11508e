//! The handle on a toplevel: jobs, deadlines, interrupts.

mod conversation;
mod copy;
mod left;
mod patience;
mod reaper;
mod recovery;
mod soon;
mod supervise;
mod thread;
mod worker;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

pub use crate::bridge::Runtime;
use soon::soon;

use crate::capture::{Capture, Meter};
use crate::checkpoint::Checkpoints;
use crate::cpu::ThreadId;
use crate::end::End;
use crate::error::EvaluatorError;
pub use crate::eval_thread::{EvalThread, Evaluated, Run};
use crate::job::{Eval, Job};
use crate::overflow::Cut;
use crate::phrase_log::PhraseLog;
use crate::settings::Settings;
use crate::{Variant, memory};
pub use left::WorkerLeft;
use thread::Thread;
pub use worker::Worker;

/// A handle on a toplevel, which ends when the handle is dropped and the evaluation that
/// runs is over.
pub struct Evaluator {
    toplevel: Toplevel,
    meter: Option<Meter>,
    settings: Settings,
}

/// Where the toplevel is.
enum Toplevel {
    /// In this process; there is one.
    Thread(Thread),
    /// In a process of its own.
    Worker(Worker),
}

/// The result of one evaluation.
pub type Evaluation = Run<Evaluated>;

/// Why an evaluation is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Stop {
    Timeout(Duration),
    Cancelled,
    /// It wrote more than this many bytes.
    Output(u64),
    /// The process has more than this many bytes in memory, because of it.
    Memory(u64),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Timeout(limit) => {
                write!(f, "evaluation timed out after {} s", limit.as_secs_f64())
            }
            Stop::Cancelled => f.write_str("evaluation timed out: it was cancelled"),
            Stop::Memory(limit) => write!(
                f,
                "evaluation stopped: the process has more than {} MB in memory \
                 (TOPUP_MEMORY_MAX sets the limit)",
                limit >> 20
            ),
            Stop::Output(limit) => write!(
                f,
                "evaluation stopped: it wrote more than {limit} bytes to stdout and stderr \
                 (TOPUP_OUTPUT_MAX sets the limit)"
            ),
        }
    }
}

impl Evaluator {
    /// Starts the eval thread, which boots the OCaml runtime (`variant` is what the
    /// executable is linked with); returns before that is done.
    /// Without a capture, user code prints where the process prints and the output limit
    /// does not hold.
    pub fn start(
        variant: Variant,
        capture: Option<Capture>,
        settings: Settings,
    ) -> std::io::Result<Evaluator> {
        let log = PhraseLog::open(settings.phrase_log.clone());
        Evaluator::start_with(variant, capture, settings, log, None)
    }

    /// The same, with a log that there is already. What nothing stops is reported to `ends`.
    pub fn start_with(
        variant: Variant,
        capture: Option<Capture>,
        settings: Settings,
        log: PhraseLog,
        ends: Option<UnboundedSender<End>>,
    ) -> std::io::Result<Evaluator> {
        let meter = capture.as_ref().map(Capture::meter);
        let thread = Thread::start(variant, capture, settings.inline_max, log, ends)?;
        Ok(Evaluator {
            toplevel: Toplevel::Thread(thread),
            meter,
            settings,
        })
    }

    /// The handle on a worker's toplevel.
    pub fn of_worker(worker: Worker, settings: Settings) -> Evaluator {
        Evaluator {
            meter: Some(worker.meter()),
            toplevel: Toplevel::Worker(worker),
            settings,
        }
    }

    /// The worker whose toplevel it is.
    pub fn worker(&self) -> Option<&Worker> {
        match &self.toplevel {
            Toplevel::Worker(worker) => Some(worker),
            Toplevel::Thread(_) => None,
        }
    }

    /// Runs `source` for at most `timeout` (`None`: the default limit). When `cancel`
    /// completes, the evaluation is interrupted. One call at a time, here and below.
    pub async fn eval(
        &self,
        source: String,
        timeout: Option<Duration>,
        cancel: impl Future<Output = ()>,
    ) -> Result<Evaluation, EvaluatorError> {
        let limit = timeout.or(self.settings.timeout);
        self.run(Eval { source }, limit, cancel).await
    }

    /// Does what may run user code, for at most `limit`.
    pub async fn run<T, J: Job<Done = Run<T>>>(
        &self,
        job: J,
        limit: Option<Duration>,
        cancel: impl Future<Output = ()>,
    ) -> Result<Run<T>, EvaluatorError> {
        self.booted().await?;
        let written = self.written();
        let mut finished = self.send(job)?;
        let (finished, stop) = match soon(&mut finished).await {
            Some(result) => (result, None),
            None => self.supervise(finished, limit, written, cancel).await,
        };
        let run = finished.map_err(|_| ended())?;
        let run = run.map_err(|error| self.stopped_by(error, stop))?;
        Ok(Run { stop, ..run })
    }

    /// Does what runs no user code. A worker that has not done it a while after `cancel`
    /// completes is ended.
    pub async fn ask<J: Job>(
        &self,
        job: J,
        cancel: impl Future<Output = ()>,
    ) -> Result<J::Done, EvaluatorError> {
        self.booted().await?;
        let (answered, stop) = self.answered(self.send(job)?, cancel).await;
        let answer = answered.map_err(|_| ended())?;
        answer.map_err(|error| self.stopped_by(error, stop))
    }

    /// What was printed and not reported, when the process has come to its end.
    pub fn printed(&self) -> (Cut, Cut) {
        let meter = self.meter.as_ref();
        meter.map_or_else(Default::default, |meter| {
            meter.unreported(self.settings.inline_max)
        })
    }

    /// The text of the phrase log and its number of phrases, also while something runs that
    /// nothing can stop.
    pub fn log(&self) -> Result<(Vec<u8>, usize), EvaluatorError> {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.log().contents().map_err(EvaluatorError::Log),
            Toplevel::Worker(_) => Err(EvaluatorError::Fault("it is elsewhere".into())),
        }
    }

    /// The file of the phrase log, if there is one.
    pub fn log_path(&self) -> Option<std::path::PathBuf> {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.log().path(),
            Toplevel::Worker(_) => None,
        }
    }

    /// Why there is no phrase log, if there is none.
    pub fn no_log(&self) -> Option<String> {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.log().unavailable(),
            Toplevel::Worker(_) => None,
        }
    }

    /// The time limit of evaluations that name none.
    pub fn limit(&self) -> Option<Duration> {
        self.settings.timeout
    }

    /// A text as a reply shows it.
    pub fn cut(&self, name: &str, text: String) -> Cut {
        Cut::text(name, text, self.settings.inline_max)
    }

    /// Where this session's checkpoints are.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::at(self.settings.checkpoint_dir.clone())
    }

    fn send<J: Job>(
        &self,
        job: J,
    ) -> Result<oneshot::Receiver<Result<J::Done, EvaluatorError>>, EvaluatorError> {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.send(job),
            Toplevel::Worker(worker) => worker.send(job),
        }
    }

    fn interrupt(&self) {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.interrupt(),
            Toplevel::Worker(worker) => worker.interrupt(),
        }
    }

    /// Nothing stops what runs; what holds it is ended.
    fn stuck(&self, stop: Stop) {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.stuck(stop),
            Toplevel::Worker(worker) => worker.give_up(),
        }
    }

    /// The end of a worker that was killed because nothing else stopped it.
    fn stopped_by(&self, error: EvaluatorError, stop: Option<Stop>) -> EvaluatorError {
        match (error, stop) {
            (EvaluatorError::Ended(mut ended), Some(stop))
                if self.worker().is_some_and(Worker::was_given_up) =>
            {
                ended.0 = End::Stuck(stop);
                EvaluatorError::Ended(ended)
            }
            (error, _) => error,
        }
    }

    /// The thread that evaluates, while it does.
    fn thread(&self) -> Option<ThreadId> {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.id(),
            Toplevel::Worker(worker) => Some(worker.thread()),
        }
    }

    fn resident(&self) -> u64 {
        memory::resident(match &self.toplevel {
            Toplevel::Thread(_) => std::process::id(),
            Toplevel::Worker(worker) => worker.pid().unsigned_abs(),
        })
    }

    fn written(&self) -> u64 {
        self.meter.as_ref().map_or(0, Meter::written)
    }

    /// Waits until the OCaml toplevel is up, or has failed to come up.
    pub async fn booted(&self) -> Result<(), EvaluatorError> {
        match &self.toplevel {
            Toplevel::Thread(thread) => thread.booted().await,
            // It takes its first job when it is.
            Toplevel::Worker(_) => Ok(()),
        }
    }
}

fn ended() -> EvaluatorError {
    EvaluatorError::Fault("it has ended".into())
}
