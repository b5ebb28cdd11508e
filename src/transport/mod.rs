//! How messages reach the server and leave it. Nothing above knows which transport it is.

mod memory;
mod stdio;

pub use memory::{Peer, memory};
pub use stdio::stdio;

use serde_json::Value;
use tokio::sync::mpsc;

/// One line of input: a JSON value, or why it is none.
pub type Message = Result<Value, BadLine>;

/// A line that is not a message.
#[derive(Debug, Clone, PartialEq)]
pub enum BadLine {
    /// Not JSON; the parser's words.
    Syntax(String),
    /// Longer than this many bytes; it was skipped.
    TooLong(usize),
}

/// A client, as two channels. `incoming` ends when the client has no more to say;
/// `outgoing` fails when it no longer listens.
pub struct Connection {
    pub incoming: mpsc::Receiver<Message>,
    pub outgoing: mpsc::UnboundedSender<Output>,
    /// Completes when the client can no longer receive anything.
    pub gone: tokio_util::sync::CancellationToken,
}

/// What the server hands to the transport.
#[derive(Debug)]
pub enum Output {
    /// One JSON text without a line break.
    Line(String),
    /// Answered when everything before it has been written.
    Flush(tokio::sync::oneshot::Sender<()>),
}

/// Messages read ahead of the server.
const READ_AHEAD: usize = 1024;

fn parse(line: &[u8]) -> Option<Message> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    Some(serde_json::from_slice(line).map_err(|error| BadLine::Syntax(error.to_string())))
}
