//! The calls of a connection: what is in flight, how each is answered.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::pending::{Pending, reporting};
use super::{Event, Resumed};
use crate::progress::Progress;
use crate::protocol::batch::{BatchId, Batches};
use crate::protocol::jsonrpc::{self, Fault, Id, Incoming};
use crate::protocol::mcp::{self, Negotiation, Notification, Request};
use crate::protocol::messages;
use crate::router::{LOCAL, Router};
use crate::session::Ticket;
use crate::tools::{self, Answer, Tool};
use crate::transport::{Message, Outgoing};

/// The state of one connection's server.
pub struct Server {
    pub router: Arc<Router>,
    pub outgoing: Outgoing,
    pub negotiation: Negotiation,
    pub batches: Batches,
    /// Where calls report.
    pub(super) events: mpsc::UnboundedSender<Event>,
    /// Calls in flight, each with what takes it back.
    pub pending: HashMap<Id, Pending>,
    /// The lengths of their lines.
    pub pending_bytes: usize,
    /// How many calls there were.
    pub calls: u64,
    /// Calls that were in flight when the image before this one ended.
    pub resumed: Resumed,
}

/// Tells of the end of a call, also if that is a panic.
struct CallEnd {
    id: Id,
    answer: Option<Answer>,
    events: mpsc::UnboundedSender<Event>,
}

impl Drop for CallEnd {
    fn drop(&mut self) {
        let (id, answer) = (self.id.clone(), self.answer.take());
        // The server may have ended; then nobody waits for it.
        let _ = self.events.send(Event::Finished { id, answer });
    }
}

/// So many calls may be in flight.
const MOST_CALLS: usize = 1 << 14;
/// So long may their lines be in all, but for the latest.
const MOST_BYTES: usize = 256 << 20;

impl Server {
    /// Whether one more message is taken in; else it waits in the client's pipe.
    pub fn takes_more(&self) -> bool {
        self.pending.len() < MOST_CALLS && self.pending_bytes < MOST_BYTES
    }

    pub fn message(&mut self, mut message: Message) {
        let line = std::mem::take(&mut message.line);
        match jsonrpc::read(message) {
            Incoming::Batch(messages) if self.negotiation.revision().has_batches() => {
                let read = |mut message: Message| {
                    let line = std::mem::take(&mut message.line);
                    (line, jsonrpc::read(message))
                };
                let members: Vec<_> = messages.into_iter().map(read).collect();
                let requests = members.iter().filter(|(_, member)| member.wants_reply());
                let batch = self.batches.begin(requests.count());
                for (line, member) in members {
                    self.single(line, member, Some(batch));
                }
            }
            Incoming::Batch(_) => {
                let reason = "batches belong to revision 2025-03-26; send one message a line";
                self.refuse(None, None, Fault::invalid_request(reason));
            }
            message => self.single(line, message, None),
        }
    }

    fn single(&mut self, line: Vec<u8>, message: Incoming, batch: Option<BatchId>) {
        match message {
            Incoming::Request { id, method, params } => {
                self.request(line, id, &method, params, batch);
            }
            Incoming::Notification { method, params } => self.notification(&method, &params),
            Incoming::Bad { id, fault } => self.refuse(batch, id.as_ref(), fault),
            Incoming::Ignored | Incoming::Batch(_) => {}
        }
    }

    fn request(
        &mut self,
        line: Vec<u8>,
        id: Id,
        method: &str,
        params: Map<String, Value>,
        batch: Option<BatchId>,
    ) {
        if self.pending.contains_key(&id) {
            let reason = "a request with this id is still in flight";
            return self.refuse(batch, Some(&id), Fault::invalid_request(reason));
        }
        if batch.is_some() && method == "initialize" {
            let reason = "initialize must not be part of a batch";
            return self.refuse(batch, Some(&id), Fault::invalid_request(reason));
        }
        let router = &self.router;
        match self
            .negotiation
            .request(method, params, || router.instructions())
        {
            Ok((_, Request::Now(result))) => {
                self.send(batch, Some(jsonrpc::reply(&id, Ok(result))));
            }
            Ok((
                revision,
                Request::Call {
                    tool,
                    arguments,
                    progress_token,
                },
            )) => {
                self.calls += 1;
                let pending = Pending {
                    ticket: Ticket::new(self.outgoing.room(), self.resumed.take(&id)),
                    number: self.calls,
                    line,
                    withdrawn: false,
                    begun: self.resumed.begun(&id),
                    progress_token,
                    revision,
                    batch,
                };
                self.call(id, tool, arguments, pending);
            }
            Err(fault) => self.refuse(batch, Some(&id), fault),
        }
    }

    fn call(
        &mut self,
        id: Id,
        tool: &'static Tool,
        arguments: Map<String, Value>,
        pending: Pending,
    ) {
        let ticket = pending.ticket.clone();
        let (wants_progress, begun) = (pending.progress_token.is_some(), pending.begun);
        self.pending_bytes += pending.line.len();
        self.pending.insert(id.clone(), pending);
        let router = Arc::clone(&self.router);
        // From now on, not from when the task has its turn.
        let in_flight = router.begin_work();
        let mut end = CallEnd {
            id,
            answer: None,
            events: self.events.clone(),
        };
        tokio::spawn(async move {
            let progress = Progress::default();
            let work = tools::call(tool, arguments, &router, ticket, progress.clone());
            end.answer = Some(match wants_progress {
                true => reporting(&end.id, begun, &progress, &end.events, work).await,
                false => work.await,
            });
            drop(end);
            drop(in_flight);
        });
    }

    /// Tells of a call, unless the client has not read what was said before.
    pub fn goes_on(&self, id: &Id, elapsed: Duration, message: &str) {
        if !self.outgoing.room().is_empty() {
            return;
        }
        if let Some(Pending {
            withdrawn: false,
            progress_token: Some(token),
            revision,
            ..
        }) = self.pending.get(id)
        {
            let line = messages::progress(*revision, token, elapsed, message);
            self.outgoing.line(line);
        }
    }

    pub fn finish(&mut self, id: Id, answer: Option<Answer>) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        self.pending_bytes -= pending.line.len();
        match answer {
            Some(answer) => self.answer(&id, &pending, answer),
            None => {
                let text = "a fault of topup's own ended the call; with TOPUP_LOG_LEVEL=error stderr says where";
                self.refuse(pending.batch, Some(&id), Fault::internal(text));
            }
        }
    }

    /// Replies to a call, unless its client has taken it back.
    pub fn answer(&mut self, id: &Id, pending: &Pending, answer: Answer) {
        let result = messages::call_result(pending.revision, answer, self.log());
        let reply = (!pending.withdrawn).then(|| jsonrpc::reply(id, Ok(result)));
        self.send(pending.batch, reply);
    }

    /// Where the phrase log is, for another topup.
    fn log(&self) -> Option<Option<PathBuf>> {
        let is_topup = self.negotiation.is_topup();
        is_topup.then(|| self.router.local().evaluator().log_path())
    }

    /// Sends a reply, with those of its batch if it belongs to one.
    pub fn send(&mut self, batch: Option<BatchId>, reply: Option<String>) {
        let line = match batch {
            Some(batch) => self.batches.settle(batch, reply),
            None => reply,
        };
        if let Some(line) = line {
            self.outgoing.line(line);
        }
    }

    fn notification(&mut self, method: &str, params: &Map<String, Value>) {
        match mcp::notification(method, params) {
            Notification::Withdraw(id) => match self.pending.get_mut(&id) {
                Some(pending) => {
                    pending.withdrawn = true;
                    pending.ticket.cancel.cancel();
                }
                // A topup names its own calls; this one is over.
                None if self.negotiation.is_topup() => {}
                None => self.router.cancel(LOCAL),
            },
            Notification::Cancel(session) => self.router.cancel(&session),
            Notification::CancelOn(host) => self.router.cancel_on(&host),
            Notification::Other => {}
        }
    }

    fn refuse(&mut self, batch: Option<BatchId>, id: Option<&Id>, fault: Fault) {
        let line = match id {
            Some(id) => jsonrpc::reply(id, Err::<(), _>(fault)),
            None => jsonrpc::complaint(fault, self.negotiation.latest().has_null_ids()),
        };
        self.send(batch, Some(line));
    }

    /// Completes when the client has all that was sent, or will not take it.
    pub async fn flushed(&self, gone: &CancellationToken, shutdown: &CancellationToken) {
        tokio::select! {
            _ = self.outgoing.flushed() => {}
            _ = gone.cancelled() => {}
            _ = shutdown.cancelled() => {}
        }
    }

    pub fn abandon(&self) {
        for pending in self.pending.values() {
            pending.ticket.cancel.cancel();
        }
    }
}
