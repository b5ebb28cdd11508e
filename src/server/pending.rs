//! A call in flight: how long it takes, and what becomes of it when the process ends.

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{self, Instant, MissedTickBehavior};

use super::calls::Server;
use super::{Event, add_line};
use crate::bytes::Bytes;
use crate::end::End;
use crate::progress::{self, Progress};
use crate::protocol::batch::BatchId;
use crate::protocol::jsonrpc::{self, Id};
use crate::protocol::messages;
use crate::protocol::revision::Revision;
use crate::session::Ticket;
use crate::tools::{Answer, Failure, Phase};

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

impl Server {
    /// The call that ran when the process came to its `end` gets its reply; the lines of
    /// those that were not answered are returned, in the order in which they came, and which
    /// of them go on elsewhere.
    pub fn fall(&mut self, end: End) -> (Vec<u8>, Vec<(Id, Vec<Bytes>)>) {
        let mut calls: Vec<(Id, Pending)> = self.pending.drain().collect();
        calls.sort_by_key(|(_, pending)| pending.number);
        let (mut rest, mut elsewhere) = (Vec::new(), Vec::new());
        for (id, pending) in calls {
            let answer = match pending.ticket.sent_to() {
                Some(host) => Some(cut_off(host, end)),
                None => pending.ticket.has_begun().then(|| self.router.fallen(end)),
            };
            if let Some(answer) = answer {
                let result = messages::call_result(pending.revision, answer, None);
                let reply = (!pending.withdrawn).then(|| jsonrpc::reply(&id, Ok(result)));
                self.send(pending.batch, reply);
                continue;
            }
            let told = pending.ticket.journal.replies();
            if told.is_none() && pending.withdrawn {
                continue;
            }
            add_line(&mut rest, &pending.line);
            if pending.withdrawn {
                add_line(&mut rest, messages::withdrawal(&id).as_bytes());
            }
            self.send(pending.batch, None);
            if let Some(told) = told {
                elsewhere.push((id, told.into_iter().map(Bytes).collect()));
            }
        }
        (rest, elsewhere)
    }
}

/// The answer to a call that was sent to `host` when this process came to its `end`.
fn cut_off(host: &str, end: End) -> Answer {
    let problem = format!(
        "{host}: the connection was lost while the call ran there, because {end}; it may have run \
         to its end, and the next call connects again"
    );
    Answer::new(&Failure::new(Phase::Connect, problem), true)
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
