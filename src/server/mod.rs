//! The loop between a connection and the sessions. It never evaluates and never waits
//! for one call while another can be answered.

mod calls;
mod image;
mod pending;
mod rival;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::end::End;
use crate::mutex::lock;
use crate::protocol::batch::Batches;
use crate::protocol::jsonrpc::Id;
use crate::protocol::mcp::Negotiation;
use crate::protocol::messages;
use crate::router::Router;
use crate::tools::Answer;
use crate::transport::{Connection, Message, Room};
use calls::Server;
pub use image::{LeftBehind, Rest, Resumed};
pub use rival::Rivals;
use rival::{Suspicion, Watch};

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
    /// A call is over; without an answer if that was a fault of ours.
    Finished {
        id: Id,
        answer: Option<Answer>,
    },
    /// User code brought the process to its end.
    Fell(End),
    /// The client may have gone without a word, or has.
    Suspect(Suspicion),
    /// The client listens no more; what it has sent is to be done all the same.
    Deaf,
    /// Nobody is there any more, or we are told to end.
    Stop,
}

/// How serving ended.
pub enum Served {
    /// The client has gone, or we were told to end. Calls of its may go on.
    Done(Option<LeftBehind>),
    /// The process has come to its end, and the next image of it goes on from here.
    Fell(Rest),
}

/// Serves one connection until the client has gone, `shutdown` is cancelled, or something
/// arrives at `ends`. A client that has finished sending still gets its answers; where calls
/// outlive their client, all that one has sent is begun before this returns.
pub async fn serve(
    connection: Connection,
    negotiation: Negotiation,
    router: Arc<Router>,
    shutdown: CancellationToken,
    ends: &mut mpsc::UnboundedReceiver<End>,
    resumed: Resumed,
) -> Served {
    let Connection {
        mut incoming,
        outgoing,
        gone,
        unread,
        calls_outlive_it,
        rivals,
    } = connection;
    let mut watch = Watch::over(rivals);
    let (events, mut from_calls) = mpsc::unbounded_channel();
    let mut server = Server {
        router,
        outgoing,
        events,
        negotiation,
        batches: Batches::default(),
        pending: HashMap::new(),
        pending_bytes: 0,
        calls: 0,
        resumed,
    };
    let room = server.outgoing.room();
    let (mut open, mut heard) = (true, true);
    while open || heard && !server.pending.is_empty() {
        let is_topup = server.negotiation.is_topup();
        let event = tokio::select! {
            biased;
            _ = shutdown.cancelled() => Event::Stop,
            _ = gone.cancelled(), if heard => match calls_outlive_it {
                true => Event::Deaf,
                false => Event::Stop,
            },
            Some(end) = ends.recv() => Event::Fell(end),
            Some(event) = from_calls.recv() => event,
            message = next(&mut incoming, &room), if open && server.takes_more() => match message {
                Some(message) => Event::Message(message),
                None => Event::InputEnded,
            },
            suspicion = watch.next(is_topup, || lock(&unread).length()) => Event::Suspect(suspicion),
        };
        match event {
            Event::Message(message) => {
                watch.heard();
                server.message(message)
            }
            Event::Suspect(Suspicion::Ask) => server.outgoing.line(messages::ping()),
            Event::Suspect(Suspicion::Gone) => break,
            Event::InputEnded => open = false,
            Event::Deaf => heard = false,
            Event::Goes {
                id,
                elapsed,
                message,
            } => server.goes_on(&id, elapsed, &message),
            Event::Finished { id, answer } => server.finish(id, answer),
            Event::Fell(end) => return Served::Fell(server.fall(end, &mut incoming, &unread)),
            Event::Stop => {
                server.abandon();
                return Served::Done(None);
            }
        }
    }
    server.flushed(&gone, &shutdown).await;
    Served::Done(LeftBehind::of(server, from_calls))
}

/// The next message, once there is room for what may be said to it.
async fn next(incoming: &mut mpsc::Receiver<Message>, room: &Room) -> Option<Message> {
    room.wait().await;
    incoming.recv().await
}
