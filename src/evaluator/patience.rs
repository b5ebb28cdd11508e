//! How long an interrupt is repeated before something stronger comes.

use std::time::Duration;

use super::supervise::REPEAT;
use crate::cpu::{Share, ThreadId};

/// What an evaluation has to end in, once it is interrupted.
pub const STRONGER: Duration = Duration::from_secs(2);
/// On a machine so busy that the thread hardly ever runs, this is long enough all the same.
const LONGEST: Duration = Duration::from_secs(30);

/// What is left of it. It is counted in repetitions of the interrupt, as far as the thread
/// could do something about it: time in which it, or the whole process, stands still because
/// others run is no patience.
pub struct Patience {
    left: Duration,
    longest: Duration,
    before: Option<Share>,
    /// Whether the garbage collector had its time.
    scanned: bool,
}

impl Patience {
    pub fn of(time: Duration) -> Patience {
        Patience {
            left: time,
            longest: LONGEST,
            before: None,
            scanned: false,
        }
    }

    /// The interrupt was repeated. True once, when there is none left.
    pub fn is_over(&mut self, thread: Option<ThreadId>, resident: impl FnOnce() -> u64) -> bool {
        if self.left.is_zero() {
            return false;
        }
        let now = thread.and_then(ThreadId::share);
        let had = match (self.before, now) {
            (Some(before), Some(now)) if now.is_running => now.time.saturating_sub(before.time),
            _ => REPEAT,
        };
        self.before = now;
        self.left = self.left.saturating_sub(had.min(REPEAT));
        self.longest = self.longest.saturating_sub(REPEAT);
        if !self.left.is_zero() && !self.longest.is_zero() {
            return false;
        }
        if !std::mem::replace(&mut self.scanned, true) && !self.longest.is_zero() {
            self.left = scan(resident());
        }
        self.left.is_zero() || self.longest.is_zero()
    }
}

/// What the garbage collector may take to walk through so many bytes, a deep stack above
/// all, before the interrupt comes to be seen.
fn scan(resident: u64) -> Duration {
    const BYTES_PER_SECOND: u64 = 256 << 20;
    Duration::from_millis(1000 * resident / BYTES_PER_SECOND)
}
