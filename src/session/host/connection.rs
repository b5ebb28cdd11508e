//! How a host comes to be connected: by one attempt at a time, for which all wait that need it.

use std::sync::{Arc, Mutex, Weak};

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::link::Link;
use super::lock;
use crate::tools::Failure;

/// What an attempt comes to.
pub type Made = Result<Arc<Link>, Failure>;

/// A host's connection, as it is now.
#[derive(Default)]
pub struct Connection(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Down,
    ComesUp(Attempt),
    Up(Arc<Link>),
    /// For good, and why.
    Stopped(Failure),
}

struct Attempt {
    unwanted: CancellationToken,
    /// What its waiters hold; the attempt is unwanted when none of them is left.
    wanted: Weak<DropGuard>,
    /// Who waits, in the order in which they came.
    waiting: Vec<oneshot::Sender<Made>>,
    /// A link over which a phrase log is being run again, which goes on without waiters.
    recovers: Option<(Arc<Link>, Arc<DropGuard>)>,
}

/// The connection, or what to wait for.
pub enum Joined {
    Up(Arc<Link>),
    /// An attempt; with a token, it is the caller's to make, as long as that is not cancelled.
    ComesUp(Waiter, Option<CancellationToken>),
}

/// Waits for an attempt, and wants it for as long as it does.
pub struct Waiter {
    made: oneshot::Receiver<Made>,
    _wants: Arc<DropGuard>,
}

/// What `cancel` is about.
pub enum Cancellable {
    Nothing,
    Attempt,
    Link(Arc<Link>),
}

impl Connection {
    pub fn live(&self) -> Option<Arc<Link>> {
        match &*lock(&self.0) {
            State::Up(link) if link.is_alive() => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// Whether it is live, or is about to be.
    pub fn is_wanted(&self) -> bool {
        match &*lock(&self.0) {
            State::Up(link) => link.is_alive(),
            State::ComesUp(attempt) => attempt.wanted.strong_count() > 0,
            State::Down | State::Stopped(_) => false,
        }
    }

    /// Whether a phrase log is being run again over it.
    pub fn is_recovering(&self) -> bool {
        match &*lock(&self.0) {
            State::ComesUp(attempt) => attempt.recovers.is_some(),
            _ => false,
        }
    }

    pub fn is_stopped(&self) -> bool {
        matches!(&*lock(&self.0), State::Stopped(_))
    }

    /// The connection, or a place among those who wait for it.
    pub fn join(&self) -> Result<Joined, Failure> {
        let state = &mut *lock(&self.0);
        match state {
            State::Stopped(why) => return Err(why.clone()),
            State::Up(link) if link.is_alive() => return Ok(Joined::Up(Arc::clone(link))),
            State::ComesUp(attempt) => {
                if let Some(wants) = attempt.wanted.upgrade() {
                    return Ok(Joined::ComesUp(attempt.wait(wants), None));
                }
            }
            State::Up(link) => link.end(),
            State::Down => {}
        }
        let unwanted = CancellationToken::new();
        let wants = Arc::new(unwanted.clone().drop_guard());
        let mut attempt = Attempt {
            unwanted: unwanted.clone(),
            wanted: Arc::downgrade(&wants),
            waiting: Vec::new(),
            recovers: None,
        };
        let waiter = attempt.wait(wants);
        *state = State::ComesUp(attempt);
        Ok(Joined::ComesUp(waiter, Some(unwanted)))
    }

    /// From now on the attempt goes on without waiters: a log that is being run again is not
    /// to be left half run. False if it is unwanted already.
    pub fn recovers(&self, attempt: &CancellationToken, link: &Arc<Link>) -> bool {
        match &mut *lock(&self.0) {
            State::ComesUp(now) if !attempt.is_cancelled() && now.unwanted == *attempt => {
                let wants = now.wanted.upgrade();
                now.recovers = wants.map(|wants| (Arc::clone(link), wants));
                now.recovers.is_some()
            }
            _ => false,
        }
    }

    /// The attempt is over; tells all who wait. False if it was given up before.
    pub fn finish(&self, attempt: &CancellationToken, made: Made) -> bool {
        let state = &mut *lock(&self.0);
        match state {
            State::ComesUp(now) if now.unwanted == *attempt => {
                now.tell(&made);
                *state = made.map_or(State::Down, State::Up);
                true
            }
            _ => false,
        }
    }

    pub fn cancellable(&self) -> Cancellable {
        match &*lock(&self.0) {
            State::Up(link) if link.is_alive() => Cancellable::Link(Arc::clone(link)),
            State::ComesUp(attempt) => match &attempt.recovers {
                Some((link, _)) => Cancellable::Link(Arc::clone(link)),
                None => Cancellable::Attempt,
            },
            _ => Cancellable::Nothing,
        }
    }

    /// Ends what there is of it; who waits for it is told `why`.
    pub fn end(&self, why: &Failure) {
        let state = &mut *lock(&self.0);
        if !matches!(state, State::Stopped(_)) {
            state.end(why);
            *state = State::Down;
        }
    }

    /// Ends it for good.
    pub fn stop(&self, why: Failure) {
        let state = &mut *lock(&self.0);
        state.end(&why);
        *state = State::Stopped(why);
    }
}

impl State {
    fn end(&mut self, why: &Failure) {
        match self {
            State::Up(link) => link.end(),
            State::ComesUp(attempt) => {
                attempt.unwanted.cancel();
                if let Some((link, _)) = &attempt.recovers {
                    link.end();
                }
                attempt.tell(&Err(why.clone()));
            }
            State::Down | State::Stopped(_) => {}
        }
    }
}

impl Attempt {
    fn wait(&mut self, wants: Arc<DropGuard>) -> Waiter {
        let (tell, made) = oneshot::channel();
        self.waiting.push(tell);
        Waiter {
            made,
            _wants: wants,
        }
    }

    /// In the order in which they came, in which they also go on.
    fn tell(&mut self, made: &Made) {
        for waiter in self.waiting.drain(..) {
            // It may be gone.
            let _ = waiter.send(made.clone());
        }
    }
}

impl Waiter {
    /// What the attempt came to; `None` if it came to nothing.
    pub async fn made(self) -> Option<Made> {
        self.made.await.ok()
    }
}
