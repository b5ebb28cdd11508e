//! A call's place in the queue, and what becomes of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use super::{Journal, Line};
use crate::transport::Room;

/// A call's place in the queue.
#[derive(Debug, Clone, Default)]
pub struct Ticket {
    /// Cancelled when the client takes the call back.
    pub cancel: CancellationToken,
    /// Whether its turn with the local toplevel has come: it may have run user code.
    begun: Arc<AtomicBool>,
    /// For what the client has not read: while there is none, no turn begins.
    pub room: Room,
    /// What a worker has said to it.
    pub journal: Arc<Journal>,
    /// The host that it was sent to.
    away: Arc<OnceLock<String>>,
}

impl Ticket {
    /// Of a call that is new, or was in flight when the image before this one ended.
    pub fn new(room: Room, replies: Option<Vec<Line>>) -> Ticket {
        Ticket {
            room,
            journal: Arc::new(replies.map_or_else(Journal::default, Journal::resumed)),
            ..Ticket::default()
        }
    }

    /// Its turn with the local toplevel has come.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// It is sent to a host.
    pub fn send_to(&self, host: &str) {
        let _ = self.away.set(host.to_string());
    }

    /// The host that it was sent to, where it may have run.
    pub fn sent_to(&self) -> Option<&str> {
        self.away.get().map(String::as_str)
    }
}
