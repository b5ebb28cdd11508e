//! What the thread does that owns the OCaml runtime, here or in a worker: jobs, with their
//! output and their phrases.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Variant;
use crate::bridge::{self, Runtime};
use crate::capture::Capture;
use crate::error::{BootError, EvaluatorError};
use crate::evaluator::Stop;
use crate::interrupt::{self, Interrupt};
use crate::mutex::lock;
use crate::outcome::{Outcome, Recovered};
use crate::overflow::Cut;
use crate::phrase_log::PhraseLog;
use crate::query::{Definition, Typechecked};
use crate::{descriptors, limits, stack, user_code};

/// What ran in the toplevel, and what it printed meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run<T> {
    pub result: T,
    pub stdout: Cut,
    pub stderr: Cut,
    pub elapsed: Duration,
    /// Why topup asked it to stop, if it did; the evaluator knows.
    #[serde(skip)]
    pub stop: Option<Stop>,
    /// What could not be stored of it.
    pub notice: Option<String>,
}

impl<T> Run<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Run<U> {
        Run {
            result: change(self.result),
            stdout: self.stdout,
            stderr: self.stderr,
            elapsed: self.elapsed,
            stop: self.stop,
            notice: self.notice,
        }
    }
}

/// What a source came to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Evaluated {
    /// Without `value_repr`, which is below.
    pub outcome: Outcome,
    pub value_repr: Option<Cut>,
}

/// The state of the thread.
pub struct EvalThread {
    pub capture: Option<Capture>,
    pub interrupt: Arc<Interrupt>,
    pub inline_max: usize,
    /// Written to by the runtime's recorder, too.
    pub log: Arc<Mutex<PhraseLog>>,
}

impl EvalThread {
    pub fn new(capture: Option<Capture>, inline_max: usize, log: PhraseLog) -> EvalThread {
        EvalThread {
            capture,
            interrupt: Arc::default(),
            inline_max,
            log: Arc::new(Mutex::new(log)),
        }
    }

    /// Boots the runtime, which belongs to the calling thread.
    pub fn boot(&self, variant: Variant) -> Result<Runtime, BootError> {
        let log = Arc::clone(&self.log);
        let record = Box::new(move |phrase: &[u8]| {
            // The log is that of the process that serves.
            if !descriptors::forked() {
                lock(&log).append(phrase);
            }
        });
        Runtime::boot(variant, record)
    }

    /// Up to where the output has been reported: stdout, stderr.
    pub fn reported(&self) -> [u64; 2] {
        self.capture.as_ref().map_or([0, 0], Capture::reported)
    }

    pub fn log(&self) -> MutexGuard<'_, PhraseLog> {
        lock(&self.log)
    }

    /// Runs `work`, which may run user code: it can be interrupted, and its output is cut.
    pub fn run<T>(
        &mut self,
        runtime: &Runtime,
        work: impl FnOnce(&Runtime) -> Result<T, String>,
    ) -> Result<Run<T>, EvaluatorError> {
        if let Some(Err(error)) = self.capture.as_mut().map(Capture::attach) {
            log::error!("redirecting stdout and stderr: {error}");
        }
        interrupt::install();
        stack::separate_signals();
        let begun = Instant::now();
        self.interrupt.begin();
        let result = user_code::within(|| work(runtime));
        if descriptors::forked() {
            runtime.end(0);
        }
        self.interrupt.end();
        limits::leave_room();
        // This also takes the signals that came too late, while they can do no harm.
        let flushed = runtime.flush();
        let elapsed = begun.elapsed();
        let taken = self.capture.as_mut().map(|capture| {
            if !flushed {
                capture.make_room();
                runtime.flush();
            }
            capture.take(self.inline_max)
        });
        let taken = taken.unwrap_or_default();
        let unlogged = self.log().trouble();
        let strays = runtime.strays();
        let strays = (!strays.is_empty()).then(|| {
            format!(
                "a signal handler or finaliser of the session raised {} while nothing was \
                 evaluated; nothing was interrupted by that",
                strays.join(" and ")
            )
        });
        Ok(Run {
            result: result.map_err(EvaluatorError::Fault)?,
            stdout: taken.stdout,
            stderr: taken.stderr,
            elapsed,
            stop: None,
            notice: taken
                .notice
                .into_iter()
                .chain(unlogged)
                .chain(strays)
                .reduce(|a, b| a + "\n" + &b),
        })
    }

    /// Runs a source; what it comes to is cut as a reply shows it.
    pub fn eval(
        &mut self,
        runtime: &Runtime,
        source: &[u8],
    ) -> Result<Run<Evaluated>, EvaluatorError> {
        let run = self.run(runtime, |runtime| {
            let outcome = runtime.eval(source)?;
            if let (Some(error), true) = (&outcome.error, descriptors::forked()) {
                eprintln!("{error}");
                runtime.end(2);
            }
            Ok(outcome)
        })?;
        Ok(run.map(|outcome| self.cut(outcome)))
    }

    /// Runs a checkpoint's source in a fresh toplevel, with a log of its own; also returns
    /// how many of its phrases succeeded.
    pub fn restore(
        &mut self,
        runtime: &Runtime,
        source: &[u8],
    ) -> Result<Run<(Evaluated, usize)>, EvaluatorError> {
        self.log()
            .begin_replay(source)
            .map_err(EvaluatorError::Log)?;
        let run = self.run(runtime, |runtime| {
            runtime.reset().and_then(|()| runtime.replay(source))
        });
        bridge::no_replay();
        let complete = run.as_ref().is_ok_and(|run| run.result.error.is_none());
        let phrases = self.log().end_replay(complete, false);
        Ok(run?.map(|outcome| (self.cut(outcome), phrases)))
    }

    /// Runs the phrases of the session's log again, in a fresh toplevel, without those whose
    /// numbers `skip` has. `log` takes the place of what is in the log now, which are the
    /// phrases of it that were `done` already.
    pub fn recover(
        &mut self,
        runtime: &Runtime,
        log: Option<Vec<u8>>,
        done: usize,
        skip: &[usize],
    ) -> Result<Run<Recovered>, EvaluatorError> {
        let source = self
            .log()
            .begin_recovery(log)
            .map_err(EvaluatorError::Log)?;
        let left_out: Vec<usize> = (1..=done).chain(skip.iter().copied()).collect();
        let run = self.run(runtime, |runtime| runtime.recover(&left_out, &source));
        bridge::no_replay();
        let complete = skip.is_empty() && run.as_ref().is_ok_and(|run| run.result.is_empty());
        let phrases = self.log().end_replay(complete, true);
        Ok(run?.map(|lost| Recovered { phrases, lost }))
    }

    /// A fresh toplevel and a new log.
    pub fn reset(&mut self, runtime: &Runtime) -> Result<Run<()>, EvaluatorError> {
        limits::restore();
        self.log().restart().map_err(EvaluatorError::Log)?;
        self.run(runtime, Runtime::reset)
    }

    /// Looks a name up; see [`Runtime::lookup`].
    pub fn lookup(
        &mut self,
        runtime: &Runtime,
        name: &str,
    ) -> Result<Run<Result<Definition, String>>, EvaluatorError> {
        let mut run = self.run(runtime, |runtime| runtime.lookup(name))?;
        if let Ok(definition) = &mut run.result {
            self.cut_text("type", &mut definition.typ);
            definition
                .doc
                .iter_mut()
                .for_each(|doc| self.cut_text("doc", doc));
            for (_, typ) in &mut definition.also {
                self.cut_text("type", typ);
            }
        }
        Ok(run)
    }

    /// Type-checks a source; see [`Runtime::typecheck`].
    pub fn typecheck(
        &mut self,
        runtime: &Runtime,
        source: &[u8],
    ) -> Result<Run<Typechecked>, EvaluatorError> {
        let mut run = self.run(runtime, |runtime| runtime.typecheck(source))?;
        self.cut_the_rest(&mut run.result.outcome);
        Ok(run)
    }

    /// Cuts a text that has no overflow field of its own; the marker names the file.
    fn cut_text(&self, name: &str, text: &mut String) {
        if text.len() > self.inline_max {
            *text = Cut::text(name, std::mem::take(text), self.inline_max).inline;
        }
    }

    fn cut(&self, mut outcome: Outcome) -> Evaluated {
        let value_repr = outcome.value_repr.take();
        self.cut_the_rest(&mut outcome);
        Evaluated {
            outcome,
            value_repr: value_repr.map(|text| Cut::text("value", text, self.inline_max)),
        }
    }

    fn cut_the_rest(&self, outcome: &mut Outcome) {
        let cut = |name, text: &mut String| self.cut_text(name, text);
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
