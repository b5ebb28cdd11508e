//! A connection, from one image of the process to the next.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::Event;
use super::calls::Server;
use super::pending::Pending;
use crate::bytes::Bytes;
use crate::end::End;
use crate::mutex::lock;
use crate::protocol::jsonrpc::Id;
use crate::protocol::mcp::Negotiation;
use crate::protocol::messages;
use crate::reexec;
use crate::session::Line;
use crate::tools::{Answer, Failure, Phase};
use crate::transport::{Message, Unread};

/// What a connection's next server needs.
pub struct Rest {
    /// Input that is not answered, as it came.
    pub unread: Vec<u8>,
    /// Output that the client has not taken.
    pub unsent: Vec<u8>,
    /// What the handshake settled.
    pub negotiation: Negotiation,
    /// Calls that go on elsewhere, by id, and what they were told there. They are among the
    /// input that is not answered.
    pub calls: Vec<(Id, Vec<Bytes>)>,
    /// When calls came that are among the input that is not answered, by id.
    pub begun: Vec<(Id, f64)>,
    pub end: End,
}

impl Rest {
    /// There was no client.
    pub fn of_nobody(end: End) -> Rest {
        Rest {
            unread: Vec::new(),
            unsent: Vec::new(),
            negotiation: Negotiation::default(),
            calls: Vec::new(),
            begun: Vec::new(),
            end,
        }
    }
}

/// The calls that were in flight when this process went on in another image: what those
/// were told that went on, when all came.
#[derive(Default)]
pub struct Resumed {
    told: HashMap<Id, Vec<Bytes>>,
    begun: HashMap<Id, f64>,
}

impl Resumed {
    pub fn new(calls: Vec<(Id, Vec<Bytes>)>, begun: Vec<(Id, f64)>) -> Resumed {
        Resumed {
            told: calls.into_iter().collect(),
            begun: begun.into_iter().collect(),
        }
    }

    /// When the call came, on the clock of [`reexec::now`]: now, if it was not there before.
    pub fn begun(&mut self, id: &Id) -> f64 {
        self.begun.remove(id).unwrap_or_else(reexec::now)
    }

    /// What the call was told; once.
    pub fn take(&mut self, id: &Id) -> Option<Vec<Line>> {
        let replies = self.told.remove(id)?;
        Some(replies.into_iter().map(|reply| reply.0).collect())
    }
}

/// The calls of a client that has gone, which go on without it.
pub struct LeftBehind {
    server: Server,
    from_calls: mpsc::UnboundedReceiver<Event>,
}

impl LeftBehind {
    /// `None` if there are none.
    pub(super) fn of(
        server: Server,
        from_calls: mpsc::UnboundedReceiver<Event>,
    ) -> Option<LeftBehind> {
        let mut left = LeftBehind { server, from_calls };
        left.goes_on().then_some(left)
    }

    /// Whether any of them is not over.
    pub fn goes_on(&mut self) -> bool {
        while let Ok(event) = self.from_calls.try_recv() {
            if let Event::Finished { id, answer } = event {
                self.server.finish(id, answer);
            }
        }
        !self.server.pending.is_empty()
    }

    /// What is left of them when the process has come to its `end`, for a server of nobody.
    pub fn rest(mut self, end: End) -> Option<Rest> {
        self.goes_on().then(|| self.server.unanswered(end))
    }
}

impl Server {
    /// What the connection's next server needs after the process came to its `end`. Nothing
    /// is awaited here or until the next image begins: whatever went on meanwhile would be
    /// lost, or done again.
    pub fn fall(
        mut self,
        end: End,
        incoming: &mut mpsc::Receiver<Message>,
        unread: &Unread,
    ) -> Rest {
        let mut rest = self.unanswered(end);
        while let Ok(message) = incoming.try_recv() {
            add_line(&mut rest.unread, &message.line);
        }
        rest.unread.extend(lock(unread).rest());
        Rest {
            unsent: self.outgoing.rest(),
            negotiation: self.negotiation,
            ..rest
        }
    }

    /// The call that ran when the process came to its `end` gets its reply; the lines of
    /// those that were not answered are what is left, in the order in which they came.
    fn unanswered(&mut self, end: End) -> Rest {
        let mut calls: Vec<(Id, Pending)> = self.pending.drain().collect();
        calls.sort_by_key(|(_, pending)| pending.number);
        let mut rest = Rest::of_nobody(end);
        for (id, pending) in calls {
            let answer = match pending.ticket.sent_to() {
                Some(host) => Some(cut_off(host, end)),
                None => pending.ticket.has_begun().then(|| self.router.fallen(end)),
            };
            if let Some(answer) = answer {
                self.answer(&id, &pending, answer);
                continue;
            }
            let told = pending.ticket.journal.replies();
            if told.is_none() && pending.withdrawn {
                continue;
            }
            add_line(&mut rest.unread, &pending.line);
            rest.begun.push((id.clone(), pending.begun));
            if pending.withdrawn {
                add_line(&mut rest.unread, messages::withdrawal(&id).as_bytes());
            }
            self.send(pending.batch, None);
            if let Some(told) = told {
                rest.calls.push((id, told.into_iter().map(Bytes).collect()));
            }
        }
        rest
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

fn add_line(lines: &mut Vec<u8>, line: &[u8]) {
    lines.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        lines.push(b'\n');
    }
}
