//! A connection, from one image of the process to the next.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::calls::Server;
use super::pending::Pending;
use crate::bytes::Bytes;
use crate::end::End;
use crate::mutex::lock;
use crate::protocol::jsonrpc::Id;
use crate::protocol::mcp::Negotiation;
use crate::protocol::messages;
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
            end,
        }
    }
}

/// The calls that went on while this process went on in another image.
#[derive(Default)]
pub struct Resumed(HashMap<Id, Vec<Bytes>>);

impl Resumed {
    pub fn new(calls: Vec<(Id, Vec<Bytes>)>) -> Resumed {
        Resumed(calls.into_iter().collect())
    }

    /// What the call was told; once.
    pub fn take(&mut self, id: &Id) -> Option<Vec<Line>> {
        let replies = self.0.remove(id)?;
        Some(replies.into_iter().map(|reply| reply.0).collect())
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
        let (mut input, calls) = self.unanswered(end);
        while let Ok(message) = incoming.try_recv() {
            add_line(&mut input, &message.line);
        }
        input.extend(lock(unread).rest());
        Rest {
            unread: input,
            unsent: self.outgoing.rest(),
            negotiation: self.negotiation,
            calls,
            end,
        }
    }

    /// The call that ran when the process came to its `end` gets its reply; the lines of
    /// those that were not answered are returned, in the order in which they came, and which
    /// of them go on elsewhere.
    fn unanswered(&mut self, end: End) -> (Vec<u8>, Vec<(Id, Vec<Bytes>)>) {
        let mut calls: Vec<(Id, Pending)> = self.pending.drain().collect();
        calls.sort_by_key(|(_, pending)| pending.number);
        let (mut rest, mut elsewhere) = (Vec::new(), Vec::new());
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

fn add_line(lines: &mut Vec<u8>, line: &[u8]) {
    lines.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        lines.push(b'\n');
    }
}
