//! What a running call says of itself, for a client that asked for progress.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::mutex::lock;

/// Shared by the call, which says what it is doing, and the server, which passes it on.
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<Option<Says>>>);

type Says = Box<dyn Fn() -> String + Send>;

/// When a client first hears of a call, and how often from then on.
pub const FIRST: Duration = Duration::from_secs(1);
pub const EVERY: Duration = Duration::from_millis(500);

impl Progress {
    /// From now on the call is where `says` says, whenever it is asked.
    pub fn at(&self, says: impl Fn() -> String + Send + 'static) {
        *lock(&self.0) = Some(Box::new(says));
    }

    /// A short message: the time that the call has taken, and where it is.
    pub fn message(&self, elapsed: Duration) -> String {
        let says = lock(&self.0);
        let seconds = elapsed.as_secs_f64();
        match says.as_ref().map(|says| says()).filter(|at| !at.is_empty()) {
            Some(at) => format!("{seconds:.1} s: {at}"),
            None => format!("{seconds:.1} s"),
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}
