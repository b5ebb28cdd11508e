//! A call in flight, and how it tells its client that it goes on.

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{self, Instant, MissedTickBehavior};

use super::Event;
use crate::progress::{self, Progress};
use crate::protocol::batch::BatchId;
use crate::protocol::jsonrpc::Id;
use crate::protocol::revision::Revision;
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
    pub progress_token: Option<Value>,
    /// What its reply is written in.
    pub revision: Revision,
    pub batch: Option<BatchId>,
}

/// Does the work of call `id` and reports now and then that it goes on.
pub async fn reporting(
    id: &Id,
    progress: &Progress,
    events: &mpsc::UnboundedSender<Event>,
    work: impl Future<Output = Answer>,
) -> Answer {
    let begun = Instant::now();
    let mut ticks = time::interval_at(begun + progress::FIRST, progress::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            answer = &mut work => return answer,
            _ = ticks.tick() => {
                let elapsed = begun.elapsed();
                let message = progress.message(elapsed);
                let id = id.clone();
                let _ = events.send(Event::Goes { id, elapsed, message });
            }
        }
    }
}
