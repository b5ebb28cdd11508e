//! The toplevel on the eval thread of this process.

use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use super::{Runtime, Stop, ended};
use crate::capture::Capture;
use crate::cpu::ThreadId;
use crate::end::End;
use crate::error::{BootError, EvaluatorError};
use crate::eval_thread::EvalThread;
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::mutex::lock;
use crate::phrase_log::PhraseLog;
use crate::{Variant, crash, stack, user_code};

/// What the eval thread does next. It sends its own reply: nothing is matched by position.
pub type Task = Box<dyn FnOnce(&mut EvalThread, &Runtime) + Send>;

/// How the boot of the runtime went, once it is over.
pub type Boot = Option<Result<(), BootError>>;

/// Virtual size; C stubs and the bytecode interpreter recurse on it.
const STACK: usize = (64 << 20) + stack::GUARD;

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

    pub fn id(&self) -> Option<ThreadId> {
        self.interrupt.thread()
    }

    pub fn stuck(&self, stop: Stop) {
        if let Some(ends) = &self.ends {
            let _ = ends.send(End::Stuck(stop));
        }
    }

    pub fn log(&self) -> MutexGuard<'_, PhraseLog> {
        lock(&self.log)
    }

    pub fn skip(&self, skip: Vec<usize>) {
        *lock(&self.skipped) = skip;
    }

    pub fn skipped(&self) -> Vec<usize> {
        lock(&self.skipped).clone()
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

impl EvalThread {
    /// Starts the thread, which boots the runtime and then takes tasks until there can be
    /// no more.
    pub fn spawn(
        self,
        variant: Variant,
        boot: watch::Sender<Boot>,
        queue: mpsc::Receiver<Task>,
    ) -> std::io::Result<()> {
        let thread = thread::Builder::new().name("eval".into()).stack_size(STACK);
        thread.spawn(move || self.work(variant, boot, queue))?;
        Ok(())
    }

    fn work(mut self, variant: Variant, boot: watch::Sender<Boot>, queue: mpsc::Receiver<Task>) {
        crash::take_signals();
        user_code::none_here();
        if let Err(error) = stack::widen_guard() {
            log::warn!("widening the stack's guard: {error}");
        }
        let runtime = match self.boot(variant) {
            Ok(runtime) => runtime,
            Err(error) => return drop(boot.send(Some(Err(error)))),
        };
        let _ = boot.send(Some(Ok(())));
        while let Ok(task) = runtime.idle(|| next_task(&queue)) {
            task(&mut self, &runtime);
        }
    }
}

/// How long the thread looks for its next task before it sleeps: to be woken costs more than
/// a short wait.
const SOON: Duration = Duration::from_micros(250);

/// The next task; looks for it a moment before it sleeps.
fn next_task(queue: &mpsc::Receiver<Task>) -> Result<Task, mpsc::RecvError> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        match queue.try_recv() {
            Ok(task) => return Ok(task),
            Err(mpsc::TryRecvError::Empty) => thread::yield_now(),
            Err(mpsc::TryRecvError::Disconnected) => return Err(mpsc::RecvError),
        }
    }
    queue.recv()
}
