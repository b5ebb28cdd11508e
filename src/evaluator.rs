//! The eval thread: owns the OCaml runtime, runs one source at a time, can be interrupted.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::time::{self, MissedTickBehavior};

use crate::bridge::Runtime;
use crate::capture::{Capture, Meter};
use crate::error::{BootError, EvaluatorError};
use crate::interrupt::{self, Interrupt};
use crate::outcome::Outcome;
use crate::overflow::Cut;
use crate::settings::Settings;

/// A handle on the eval thread. The thread ends when the handle is dropped and the
/// evaluation that runs is over; there is one per process.
pub struct Evaluator {
    jobs: mpsc::Sender<Job>,
    booted: watch::Receiver<Option<Result<(), BootError>>>,
    interrupt: Arc<Interrupt>,
    meter: Meter,
    settings: Settings,
}

/// One source, and where its result goes.
struct Job {
    source: String,
    reply: oneshot::Sender<Result<Finished, String>>,
}

struct Finished {
    outcome: Outcome,
    value_repr: Option<Cut>,
    stdout: Cut,
    stderr: Cut,
    elapsed: Duration,
}

/// The result of one evaluation.
#[derive(Debug)]
pub struct Evaluation {
    /// Without `value_repr`, which is below.
    pub outcome: Outcome,
    pub value_repr: Option<Cut>,
    pub stdout: Cut,
    pub stderr: Cut,
    pub elapsed: Duration,
    /// Why topup asked the evaluation to stop, if it did.
    pub stop: Option<Stop>,
}

/// Why an evaluation is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    Timeout(Duration),
    Cancelled,
    /// It wrote more than this many bytes.
    Output(u64),
}

/// How often a running evaluation's output is measured.
const MEASURE: Duration = Duration::from_millis(10);
/// How often the interrupt is repeated until the evaluation ends.
const REPEAT: Duration = Duration::from_millis(100);
/// Virtual size; C stubs and the bytecode interpreter recurse on it.
const STACK: usize = 64 << 20;

impl Evaluator {
    /// Starts the thread, which boots the OCaml runtime; returns before that is done.
    pub fn start(capture: Capture, settings: Settings) -> std::io::Result<Evaluator> {
        let (jobs, queue) = mpsc::channel();
        let (boot, booted) = watch::channel(None);
        let interrupt = Arc::new(Interrupt::default());
        let meter = capture.meter()?;
        let thread = EvalThread {
            capture,
            interrupt: Arc::clone(&interrupt),
            inline_max: settings.inline_max,
        };
        thread::Builder::new()
            .name("eval".into())
            .stack_size(STACK)
            .spawn(move || thread.run(boot, queue))?;
        Ok(Evaluator { jobs, booted, interrupt, meter, settings })
    }

    /// Runs `source` for at most `timeout` (`None`: the default limit). When `cancel`
    /// completes, the evaluation is interrupted. One call at a time.
    pub async fn eval(
        &self,
        source: String,
        timeout: Option<Duration>,
        cancel: impl Future<Output = ()>,
    ) -> Result<Evaluation, EvaluatorError> {
        self.booted().await?;
        let limit = timeout.or(self.settings.timeout);
        let written = self.meter.written();
        let (reply, mut finished) = oneshot::channel();
        let fault = || EvaluatorError::Fault("it has ended".into());
        self.jobs.send(Job { source, reply }).map_err(|_| fault())?;

        let mut stop = None;
        tokio::pin!(cancel);
        let deadline = time::sleep(limit.unwrap_or(Duration::MAX));
        tokio::pin!(deadline);
        let mut measure = time::interval_at(time::Instant::now() + MEASURE, MEASURE);
        let mut repeat = time::interval(REPEAT);
        for ticks in [&mut measure, &mut repeat] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let finished = loop {
            tokio::select! {
                biased;
                result = &mut finished => break result.map_err(|_| fault())?,
                _ = repeat.tick(), if stop.is_some() => { self.interrupt.send(); }
                _ = &mut deadline, if stop.is_none() => {
                    stop = Some(Stop::Timeout(limit.unwrap_or_default()));
                    repeat.reset_immediately();
                }
                _ = &mut cancel, if stop.is_none() => {
                    stop = Some(Stop::Cancelled);
                    repeat.reset_immediately();
                }
                _ = measure.tick(), if stop.is_none() => {
                    let limit = self.settings.output_max;
                    if self.meter.written().saturating_sub(written) > limit {
                        stop = Some(Stop::Output(limit));
                        repeat.reset_immediately();
                    }
                }
            }
        };
        let Finished { outcome, value_repr, stdout, stderr, elapsed } =
            finished.map_err(EvaluatorError::Fault)?;
        Ok(Evaluation { outcome, value_repr, stdout, stderr, elapsed, stop })
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

struct EvalThread {
    capture: Capture,
    interrupt: Arc<Interrupt>,
    inline_max: usize,
}

impl EvalThread {
    fn run(
        mut self,
        boot: watch::Sender<Option<Result<(), BootError>>>,
        queue: mpsc::Receiver<Job>,
    ) {
        let runtime = match Runtime::boot() {
            Ok(runtime) => runtime,
            Err(error) => return drop(boot.send(Some(Err(error)))),
        };
        let _ = boot.send(Some(Ok(())));
        while let Ok(Job { source, reply }) = runtime.idle(|| queue.recv()) {
            // The caller may have gone while it waited; its source runs all the same.
            let _ = reply.send(self.eval(&runtime, &source));
        }
    }

    fn eval(&mut self, runtime: &Runtime, source: &str) -> Result<Finished, String> {
        if let Err(error) = self.capture.attach() {
            log::error!("redirecting stdout and stderr: {error}");
        }
        runtime.rearm();
        interrupt::install();
        let begun = Instant::now();
        self.interrupt.begin();
        let outcome = runtime.eval(source);
        if self.interrupt.end() {
            // Takes the signals that came too late while they can do no harm.
            runtime.rearm();
            interrupt::install();
        }
        runtime.flush();
        let elapsed = begun.elapsed();
        let (stdout, stderr) = self.capture.take(self.inline_max);
        let mut outcome = outcome?;
        let cut = |text| Cut::text("value", text, self.inline_max);
        let value_repr = outcome.value_repr.take().map(cut);
        Ok(Finished { outcome, value_repr, stdout, stderr, elapsed })
    }
}
