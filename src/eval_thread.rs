//! The thread that owns the OCaml runtime and does one job after the other.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::Variant;
use crate::bridge::Runtime;
use crate::capture::Capture;
use crate::error::BootError;
use crate::interrupt::{self, Interrupt};
use crate::outcome::Outcome;
use crate::overflow::Cut;

/// What the eval thread does next. It sends its own reply: nothing is matched by position.
pub type Job = Box<dyn FnOnce(&mut EvalThread, &Runtime) + Send>;

/// One source that has run.
pub struct Finished {
    pub outcome: Outcome,
    pub value_repr: Option<Cut>,
    pub stdout: Cut,
    pub stderr: Cut,
    pub elapsed: Duration,
}

/// The state of the thread.
pub struct EvalThread {
    pub capture: Option<Capture>,
    pub interrupt: Arc<Interrupt>,
    pub inline_max: usize,
}

/// How the boot of the runtime went, once it is over.
pub type Boot = Option<Result<(), BootError>>;

/// Virtual size; C stubs and the bytecode interpreter recurse on it.
const STACK: usize = 64 << 20;

impl EvalThread {
    /// Starts the thread, which boots the runtime and then takes jobs until there can be
    /// no more.
    pub fn spawn(
        self,
        variant: Variant,
        boot: watch::Sender<Boot>,
        queue: mpsc::Receiver<Job>,
    ) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("eval".into()).stack_size(STACK);
        thread.spawn(move || self.run(variant, boot, queue))?;
        Ok(())
    }

    fn run(mut self, variant: Variant, boot: watch::Sender<Boot>, queue: mpsc::Receiver<Job>) {
        let runtime = match Runtime::boot(variant) {
            Ok(runtime) => runtime,
            Err(error) => return drop(boot.send(Some(Err(error)))),
        };
        let _ = boot.send(Some(Ok(())));
        while let Ok(job) = runtime.idle(|| next_job(&queue)) {
            job(&mut self, &runtime);
        }
    }

    /// Runs one source and cuts its output.
    pub fn eval(&mut self, runtime: &Runtime, source: &str) -> Result<Finished, String> {
        if let Some(Err(error)) = self.capture.as_ref().map(Capture::attach) {
            log::error!("redirecting stdout and stderr: {error}");
        }
        interrupt::install();
        let begun = Instant::now();
        self.interrupt.begin();
        let outcome = runtime.eval(source);
        self.interrupt.end();
        // This also takes the signals that came too late, while they can do no harm.
        runtime.flush();
        let elapsed = begun.elapsed();
        let taken = self
            .capture
            .as_mut()
            .map(|capture| capture.take(self.inline_max));
        let (stdout, stderr) = taken.unwrap_or_default();
        let mut outcome = outcome?;
        let value_repr = outcome.value_repr.take();
        let value_repr = value_repr.map(|text| Cut::text("value", text, self.inline_max));
        self.cut_the_rest(&mut outcome);
        Ok(Finished {
            outcome,
            value_repr,
            stdout,
            stderr,
            elapsed,
        })
    }

    /// Cuts the texts that have no overflow field of their own; the marker names the file.
    fn cut_the_rest(&self, outcome: &mut Outcome) {
        let cut = |name, text: &mut String| {
            if text.len() > self.inline_max {
                *text = Cut::text(name, std::mem::take(text), self.inline_max).inline;
            }
        };
        outcome.error.iter_mut().for_each(|text| cut("error", text));
        outcome.typ.iter_mut().for_each(|text| cut("type", text));
        outcome
            .earlier
            .iter_mut()
            .for_each(|text| cut("earlier", text));
        outcome
            .warnings
            .iter_mut()
            .for_each(|text| cut("warning", text));
        outcome
            .diagnostics
            .iter_mut()
            .for_each(|d| cut("message", &mut d.message));
    }
}

/// How long the thread looks for its next job before it sleeps: to be woken costs more than
/// a short wait.
const SOON: Duration = Duration::from_micros(250);

/// The next job; looks for it a moment before it sleeps.
fn next_job(queue: &mpsc::Receiver<Job>) -> Result<Job, mpsc::RecvError> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        match queue.try_recv() {
            Ok(job) => return Ok(job),
            Err(mpsc::TryRecvError::Empty) => thread::yield_now(),
            Err(mpsc::TryRecvError::Disconnected) => return Err(mpsc::RecvError),
        }
    }
    queue.recv()
}
