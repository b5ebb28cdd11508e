//! A connection inside the process, for tests and for embedding.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lines::{Message, parse};
use super::outgoing::{Outgoing, Output};
use super::{Connection, READ_AHEAD};

/// The client's end of a memory connection.
pub struct Peer {
    input: mpsc::Sender<Message>,
    output: mpsc::UnboundedReceiver<Output>,
}

/// A connection and its client's end.
pub fn memory() -> (Connection, Peer) {
    let (input, incoming) = mpsc::channel(READ_AHEAD);
    let (queue, output) = mpsc::unbounded_channel();
    let outgoing = Outgoing::new(queue, None);
    let connection = Connection {
        incoming,
        outgoing,
        gone: CancellationToken::new(),
        unread: Arc::default(),
        calls_outlive_it: false,
        rivals: None,
    };
    (connection, Peer { input, output })
}

impl Peer {
    /// Sends one line, as a client would write it. False if the server has ended.
    pub async fn send(&self, line: &str) -> bool {
        match parse(line.as_bytes().to_vec()) {
            Some(message) => self.input.send(message).await.is_ok(),
            None => true,
        }
    }

    /// The next line from the server; `None` when it has ended.
    pub async fn receive(&mut self) -> Option<String> {
        loop {
            match self.output.recv().await? {
                Output::Line(line) => return Some(text(&line)),
                Output::Flush(done) => drop(done.send(())),
            }
        }
    }

    /// Ends the client's input; what the server still says can be received.
    pub fn finish(self) -> Listener {
        Listener(self.output)
    }
}

/// What is left of a peer that has finished sending.
pub struct Listener(mpsc::UnboundedReceiver<Output>);

impl Listener {
    /// All lines until the server ends.
    pub async fn lines(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(output) = self.0.recv().await {
            match output {
                Output::Line(line) => lines.push(text(&line)),
                Output::Flush(done) => drop(done.send(())),
            }
        }
        lines
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_string()
}
