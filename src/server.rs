//! The loop between a connection and the sessions. It never evaluates and never waits
//! for one call while another can be answered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::progress::{self, Progress};
use crate::protocol::batch::{BatchId, Batches};
use crate::protocol::jsonrpc::{self, Fault, Id, Incoming};
use crate::protocol::mcp::{self, Negotiation, Notification, Request};
use crate::protocol::revision::Revision;
use crate::router::Router;
use crate::tools::{self, Answer, Tool};
use crate::transport::{Connection, Message, Outgoing};

/// Everything that can happen to the server.
enum Event {
    Message(Message),
    /// The client has said its last word.
    InputEnded,
    /// A call that its client wants to hear of goes on.
    Goes {
        id: Id,
        elapsed: Duration,
        message: String,
    },
    /// A call is over.
    Finished {
        id: Id,
        answer: Answer,
    },
    /// Nobody listens any more, or we are told to end.
    Stop,
}

/// Serves one connection until the client has gone or `shutdown` is cancelled. A client
/// that has finished sending still gets its answers.
pub async fn serve(connection: Connection, router: Arc<Router>, shutdown: CancellationToken) {
    let Connection {
        mut incoming,
        outgoing,
        gone,
    } = connection;
    let (events, mut from_calls) = mpsc::unbounded_channel();
    let mut server = Server {
        router,
        outgoing,
        events,
        negotiation: Negotiation::default(),
        batches: Batches::default(),
        pending: HashMap::new(),
    };
    let mut open = true;
    while open || !server.pending.is_empty() {
        let event = tokio::select! {
            biased;
            _ = shutdown.cancelled() => Event::Stop,
            _ = gone.cancelled() => Event::Stop,
            Some(event) = from_calls.recv() => event,
            message = incoming.recv(), if open => match message {
                Some(message) => Event::Message(message),
                None => Event::InputEnded,
            },
        };
        match event {
            Event::Message(message) => server.message(message),
            Event::InputEnded => open = false,
            Event::Goes {
                id,
                elapsed,
                message,
            } => server.goes_on(&id, elapsed, &message),
            Event::Finished { id, answer } => server.finish(id, answer),
            Event::Stop => return server.abandon(),
        }
    }
    tokio::select! {
        _ = server.outgoing.flushed() => {}
        _ = gone.cancelled() => {}
        _ = shutdown.cancelled() => {}
    }
}

struct Server {
    router: Arc<Router>,
    outgoing: Outgoing,
    negotiation: Negotiation,
    batches: Batches,
    /// Where calls report.
    events: mpsc::UnboundedSender<Event>,
    /// Calls in flight, each with what takes it back.
    pending: HashMap<Id, Pending>,
}

struct Pending {
    cancel: CancellationToken,
    /// Taken back by its own client, which gets no answer.
    withdrawn: bool,
    progress_token: Option<Value>,
    /// What its reply is written in.
    revision: Revision,
    batch: Option<BatchId>,
}

impl Server {
    fn message(&mut self, message: Message) {
        match jsonrpc::read(message) {
            Incoming::Batch(messages) if self.negotiation.revision().has_batches() => {
                let requests = messages.iter().filter(|message| message.wants_reply());
                let batch = self.batches.begin(requests.count());
                for message in messages {
                    self.single(message, Some(batch));
                }
            }
            Incoming::Batch(_) => {
                let reason = "batches belong to revision 2025-03-26; send one message a line";
                self.refuse(None, None, Fault::invalid_request(reason));
            }
            message => self.single(message, None),
        }
    }

    fn single(&mut self, message: Incoming, batch: Option<BatchId>) {
        match message {
            Incoming::Request { id, method, params } => self.request(id, &method, params, batch),
            Incoming::Notification { method, params } => self.notification(&method, &params),
            Incoming::Bad { id, fault } => self.refuse(batch, id.as_ref(), fault),
            Incoming::Ignored | Incoming::Batch(_) => {}
        }
    }

    fn request(
        &mut self,
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
        match self.negotiation.request(method, params) {
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
                let pending = Pending {
                    cancel: CancellationToken::new(),
                    withdrawn: false,
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
        let cancel = pending.cancel.clone();
        let wants_progress = pending.progress_token.is_some();
        self.pending.insert(id.clone(), pending);
        let router = Arc::clone(&self.router);
        let events = self.events.clone();
        tokio::spawn(async move {
            let progress = Progress::default();
            let work = tools::call(tool, arguments, &router, cancel, progress.clone());
            let answer = if wants_progress {
                reporting(&id, &progress, &events, work).await
            } else {
                work.await
            };
            // The server may have ended; then nobody waits for the answer.
            let _ = events.send(Event::Finished { id, answer });
        });
    }

    fn goes_on(&self, id: &Id, elapsed: Duration, message: &str) {
        if let Some(Pending {
            withdrawn: false,
            progress_token: Some(token),
            revision,
            ..
        }) = self.pending.get(id)
        {
            let line = mcp::progress(*revision, token, elapsed, message);
            self.outgoing.line(line);
        }
    }

    fn finish(&mut self, id: Id, answer: Answer) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        let result = mcp::call_result(pending.revision, answer);
        let reply = (!pending.withdrawn).then(|| jsonrpc::reply(&id, Ok(result)));
        self.send(pending.batch, reply);
    }

    /// Sends a reply, with those of its batch if it belongs to one.
    fn send(&mut self, batch: Option<BatchId>, reply: Option<String>) {
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
                    pending.cancel.cancel();
                }
                None => self.router.cancel_local(),
            },
            Notification::CancelLocal => self.router.cancel_local(),
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

    fn abandon(&self) {
        for pending in self.pending.values() {
            pending.cancel.cancel();
        }
    }
}

/// Does the work of call `id` and reports now and then that it goes on.
async fn reporting(
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
