//! A call in flight, and how it tells its client that it goes on.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{self, Instant, MissedTickBehavior};

use super::Event;
use crate::progress::{self, Progress};
use crate::protocol::batch::BatchId;
use crate::protocol::jsonrpc::Id;
use crate::protocol::revision::Revision;
use crate::reexec;
use crate::session::Ticket;
use crate::tools::Answer;

/// A call in flight.
pub struct Pending {
    pub ticket: Ticket,
    /// Its place among the calls.
    pub number: u64,
    /// As it came.
    pub line: Vec<u8>,
    /// Taken back by its own client, which gets no answer.
    pub withdrawn: bool,
    /// When it came; see [`reexec::now`].
    pub begun: f64,
    pub progress_token: Option<Value>,
    /// What its reply is written in.
    pub revision: Revision,
    pub batch: Option<BatchId>,
}

/// Does the work of call `id`, which came when `begun` says, and reports now and then that it goes on.
pub async fn reporting(
    id: &Id,
    begun: f64,
    progress: &Progress,
    events: &mpsc::UnboundedSender<Event>,
    work: impl Future<Output = Answer>,
) -> Answer {
    // On a clock that goes on in the next image: what is told always rises.
    let elapsed = || Duration::from_secs_f64((reexec::now() - begun).max(0.0));
    let first = Instant::now() + progress::FIRST.saturating_sub(elapsed());
    let mut ticks = time::interval_at(first, progress::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            answer = &mut work => return answer,
            _ = ticks.tick() => {
                let elapsed = elapsed();
                let message = progress.message(elapsed);
                let id = id.clone();
                let _ = events.send(Event::Goes { id, elapsed, message });
            }
        }
    }
}
