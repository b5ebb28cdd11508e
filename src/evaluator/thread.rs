//! The toplevel on the eval thread of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use super::{Stop, ended};
use crate::Variant;
use crate::capture::Capture;
use crate::crash::End;
use crate::error::EvaluatorError;
use crate::eval_thread::{Boot, EvalThread, Task};
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::phrase_log::PhraseLog;

/// What others have of the eval thread.
pub struct Thread {
    tasks: mpsc::Sender<Task>,
    booted: watch::Receiver<Boot>,
    interrupt: Arc<Interrupt>,
    log: Arc<Mutex<PhraseLog>>,
    /// Phrases that the recovery that is on leaves out.
    skipped: Mutex<Vec<usize>>,
    /// Who is told that an evaluation cannot be stopped.
    ends: Option<UnboundedSender<End>>,
}

impl Thread {
    pub fn start(
        variant: Variant,
        capture: Option<Capture>,
        inline_max: usize,
        log: PhraseLog,
        ends: Option<UnboundedSender<End>>,
    ) -> std::io::Result<Thread> {
        let (tasks, queue) = mpsc::channel();
        let (boot, booted) = watch::channel(None);
        let thread = EvalThread::new(capture, inline_max, log);
        let (interrupt, log) = (Arc::clone(&thread.interrupt), Arc::clone(&thread.log));
        thread.spawn(variant, boot, queue)?;
        Ok(Thread {
            tasks,
            booted,
            interrupt,
            log,
            skipped: Mutex::default(),
            ends,
        })
    }

    pub fn send<J: Job>(
        &self,
        job: J,
    ) -> Result<oneshot::Receiver<Result<J::Done, EvaluatorError>>, EvaluatorError> {
        let (reply, receiver) = oneshot::channel();
        // The caller may have gone while it waited; the work is done all the same.
        let task: Task =
            Box::new(move |thread, runtime| drop(reply.send(job.run(thread, runtime))));
        self.tasks.send(task).map_err(|_| ended())?;
        Ok(receiver)
    }

    pub fn interrupt(&self) {
        self.interrupt.send();
    }

    pub fn stuck(&self, stop: Stop) {
        if let Some(ends) = &self.ends {
            let _ = ends.send(End::Stuck(stop));
        }
    }

    pub fn log(&self) -> MutexGuard<'_, PhraseLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn skip(&self, skip: Vec<usize>) {
        *self.skipped.lock().unwrap_or_else(PoisonError::into_inner) = skip;
    }

    pub fn skipped(&self) -> Vec<usize> {
        let skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        skipped.clone()
    }

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
