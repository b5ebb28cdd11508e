//! The handle on the eval thread: queue, deadline, interrupts.

mod recovery;
mod soon;
mod supervise;

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use crate::Variant;
pub use crate::bridge::Runtime;
use soon::soon;

use crate::capture::{Capture, Meter};
use crate::checkpoint::Checkpoints;
use crate::crash::End;
use crate::error::EvaluatorError;
use crate::eval_thread::{Boot, Job};
pub use crate::eval_thread::{EvalThread, Evaluated, Run};
use crate::interrupt::Interrupt;
use crate::overflow::Cut;
use crate::phrase_log::PhraseLog;
use crate::settings::Settings;

/// A handle on the eval thread. The thread ends when the handle is dropped and the
/// evaluation that runs is over; there is one per process.
pub struct Evaluator {
    jobs: mpsc::Sender<Job>,
    booted: watch::Receiver<Boot>,
    interrupt: Arc<Interrupt>,
    meter: Option<Meter>,
    log: Arc<Mutex<PhraseLog>>,
    settings: Settings,
    /// Phrases that the recovery that is on leaves out.
    skipped: Mutex<Vec<usize>>,
    /// Who is told that an evaluation cannot be stopped.
    ends: Option<UnboundedSender<End>>,
}

/// The result of one evaluation.
pub type Evaluation = Run<Evaluated>;

/// Why an evaluation is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    Timeout(Duration),
    Cancelled,
    /// It wrote more than this many bytes.
    Output(u64),
    /// The process has more than this many bytes in memory, because of it.
    Memory(u64),
}

impl Evaluator {
    /// Starts the thread, which boots the OCaml runtime (`variant` is what the executable is
    /// linked with); returns before that is done.
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
        let (jobs, queue) = mpsc::channel();
        let (boot, booted) = watch::channel(None);
        let interrupt = Arc::new(Interrupt::default());
        let meter = capture.as_ref().map(Capture::meter);
        let log = Arc::new(Mutex::new(log));
        let thread = EvalThread {
            capture,
            interrupt: Arc::clone(&interrupt),
            inline_max: settings.inline_max,
            log: Arc::clone(&log),
        };
        thread.spawn(variant, boot, queue)?;
        Ok(Evaluator {
            jobs,
            booted,
            interrupt,
            meter,
            log,
            settings,
            skipped: Mutex::default(),
            ends,
        })
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
        self.run(limit, cancel, move |thread, runtime| {
            thread.eval(runtime, source.as_bytes())
        })
        .await
    }

    /// Runs the source of a checkpoint in a fresh toplevel; also returns how many of its
    /// phrases succeeded. The phrase log then holds those.
    pub async fn restore(
        &self,
        source: Vec<u8>,
        cancel: impl Future<Output = ()>,
    ) -> Result<Run<(Evaluated, usize)>, EvaluatorError> {
        self.run(None, cancel, move |thread, runtime| {
            thread.restore(runtime, &source)
        })
        .await
    }

    /// What was printed and not reported, when the process has come to its end.
    pub fn printed(&self) -> (Cut, Cut) {
        let meter = self.meter.as_ref();
        meter.map_or_else(Default::default, |meter| {
            meter.unreported(self.settings.inline_max)
        })
    }

    fn stuck(&self, stop: Stop) {
        if let Some(ends) = &self.ends {
            let _ = ends.send(End::Stuck(stop));
        }
    }

    /// Makes it a toplevel in which nothing has happened, with a new phrase log.
    pub async fn reset(&self, cancel: impl Future<Output = ()>) -> Result<Run<()>, EvaluatorError> {
        self.run(None, cancel, EvalThread::reset).await
    }

    /// The text of the phrase log and its number of phrases.
    pub fn log(&self) -> Result<(Vec<u8>, usize), EvaluatorError> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.contents().map_err(EvaluatorError::Log)
    }

    /// Why there is no phrase log, if there is none.
    pub fn no_log(&self) -> Option<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.unavailable()
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

    /// Runs what may run user code, for at most `limit`.
    pub async fn run<T: Send + 'static>(
        &self,
        limit: Option<Duration>,
        cancel: impl Future<Output = ()>,
        work: impl FnOnce(&mut EvalThread, &Runtime) -> Result<Run<T>, EvaluatorError> + Send + 'static,
    ) -> Result<Run<T>, EvaluatorError> {
        self.booted().await?;
        let written = self.written();
        let mut finished = self.send(work)?;
        let (finished, stop) = match soon(&mut finished).await {
            Some(result) => (result, None),
            None => self.supervise(finished, limit, written, cancel).await,
        };
        let run = finished.map_err(|_| ended())??;
        Ok(Run { stop, ..run })
    }

    /// Asks the toplevel something that runs no user code.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Runtime) -> Result<T, String> + Send + 'static,
    ) -> Result<T, EvaluatorError> {
        self.booted().await?;
        let answer = self.send(move |_, runtime| question(runtime))?;
        answer
            .await
            .map_err(|_| ended())?
            .map_err(EvaluatorError::Fault)
    }

    fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut EvalThread, &Runtime) -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, EvaluatorError> {
        let (reply, receiver) = oneshot::channel();
        // The caller may have gone while it waited; the work is done all the same.
        let job: Job = Box::new(move |thread, runtime| drop(reply.send(work(thread, runtime))));
        self.jobs.send(job).map_err(|_| ended())?;
        Ok(receiver)
    }

    fn written(&self) -> u64 {
        self.meter.as_ref().map_or(0, Meter::written)
    }

    /// Waits until the OCaml toplevel is up, or has failed to come up.
    pub async fn booted(&self) -> Result<(), EvaluatorError> {
        let mut booted = self.booted.clone();
        let state = booted.wait_for(Option::is_some).await;
        match state.as_deref() {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(error))) => Err(EvaluatorError::Boot(error.clone())),
            _ => Err(EvaluatorError::Fault("it ended while booting".into())),
        }
    }
}

fn ended() -> EvaluatorError {
    EvaluatorError::Fault("it has ended".into())
}
