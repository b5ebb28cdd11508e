//! A session: a toplevel, one caller at a time.

mod frozen;
mod host;
mod hosts;
mod journal;
mod kept;
mod known;
mod launch;
mod left;
mod local;
mod named;
mod peer;
mod pool;
mod recipes;
mod registry;
mod ssh;
mod starts;
mod turn;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tokio_util::sync::CancellationToken;

pub use frozen::{Frozen, Thawed};
pub use host::Host;
pub use hosts::{HostListed, Hosts, HostsLeft};
pub use journal::{Journal, Line};
pub use known::Known;
pub use launch::Launcher;
pub use left::SessionsLeft;
pub use local::recovery;
pub use recipes::{Changes, Recipe};
pub use registry::{Listed, Registry, Started};
pub use turn::{Ticket, Turn};

use crate::end::End;
use crate::evaluator::Evaluator;
use crate::mutex::lock;
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
    /// How a call has ended it, if one has: who waits for a turn gets none.
    stopped: OnceLock<End>,
    /// Whether anything was asked of it that may have run user code.
    is_used: AtomicBool,
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
            stopped: Default::default(),
            is_used: AtomicBool::new(false),
        }
    }

    /// Waits for the caller's turn; fails if the ticket is cancelled first. Nobody else
    /// evaluates until the turn is dropped. A toplevel that has ended is brought back.
    pub async fn turn(&self, ticket: &Ticket) -> Result<Turn<'_>, Failure> {
        let place = tokio::select! {
            biased;
            // What runs already must be stopped, not left alone.
            _ = ticket.cancel.cancelled(), if !ticket.journal.is_resumed() => {
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
                self.unless_stopped()?;
                // A call of the image before this one has its answer from the process of then.
                if !ticket.journal.is_resumed() {
                    named.bring_back(&turn).await?;
                    self.unless_stopped()?;
                }
                if let Some(worker) = self.evaluator().worker() {
                    ticket.journal.begin();
                    worker.keep(&ticket.journal);
                }
            }
        }
        Ok(turn)
    }

    fn unless_stopped(&self) -> Result<(), Failure> {
        let what = match self.stopped.get() {
            None => return Ok(()),
            Some(End::Restarted) => "restarted",
            Some(_) => "stopped",
        };
        let text = format!(
            "session {:?} was {what} before this call began, which did nothing",
            self.name()
        );
        Err(Failure::new(Phase::Route, text))
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

    /// Ends a named session's process, whatever runs there and is told of that `end`;
    /// completes when it is gone.
    pub async fn stop(&self, end: End) {
        let _ = self.stopped.set(end);
        let evaluator = self.evaluator();
        evaluator.worker().inspect(|worker| worker.kill());
        // What brings its process back, or waits for a copy, has nothing to wait for.
        self.cancel();
        if let Some(worker) = evaluator.worker() {
            worker.gone().await;
        }
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

    /// Whether anything was asked of it that may have run user code.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Whether a turn is on.
    pub fn is_busy(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        lock(&self.current)
    }
}
