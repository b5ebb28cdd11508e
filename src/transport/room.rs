//! How much waits for a client that does not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Bytes that were said and not written yet. Shared by who writes them and those who must
/// not add to them while there are too many: no call begins, no message is taken in.
#[derive(Debug, Clone, Default)]
pub struct Room(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// Whether nobody is left who would read.
    given_up: AtomicBool,
    freed: Notify,
}

/// So many bytes may wait.
const MOST: usize = 64 << 20;

impl Room {
    /// So many bytes more wait to be written.
    pub fn taken(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// So many of them were written.
    pub fn freed(&self, bytes: usize) {
        let before = self.0.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before >= MOST && before - bytes < MOST {
            self.0.freed.notify_waiters();
        }
    }

    /// What waits is not written any more, nor what comes: there always is room.
    pub fn give_up(&self) {
        self.0.given_up.store(true, Ordering::Release);
        self.0.freed.notify_waiters();
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Completes as soon as there is room for more.
    pub async fn wait(&self) {
        loop {
            // Made before the look, so that no word in between is missed.
            let freed = self.0.freed.notified();
            if self.waiting() < MOST || self.0.given_up.load(Ordering::Acquire) {
                return;
            }
            freed.await;
        }
    }

    fn waiting(&self) -> usize {
        self.0.bytes.load(Ordering::Acquire)
    }
}
