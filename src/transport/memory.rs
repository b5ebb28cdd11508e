//! A connection inside the process, for tests and for embedding.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lines::{Message, parse};
use super::outgoing::{Outgoing, Queue};
use super::{Connection, READ_AHEAD};

/// The client's end of a memory connection.
pub struct Peer {
    input: mpsc::Sender<Message>,
    output: Listener,
}

/// A connection and its client's end.
pub fn memory() -> (Connection, Peer) {
    let (input, incoming) = mpsc::channel(READ_AHEAD);
    let queue = Arc::new(Queue::default());
    let connection = Connection {
        incoming,
        outgoing: Outgoing::new(Arc::clone(&queue), None),
        gone: CancellationToken::new(),
        unread: Arc::default(),
        calls_outlive_it: false,
        rivals: None,
    };
    let output = Listener(queue);
    (connection, Peer { input, output })
}

/// A connection to nobody: `lines` were sent, and the client has gone.
pub fn of_nobody(lines: &[u8]) -> Connection {
    let lines: Vec<_> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    let (input, incoming) = mpsc::channel(lines.len().max(1));
    for line in lines {
        if let Some(message) = parse(line.to_vec()) {
            // There is room for as many as there are.
            let _ = input.try_send(message);
        }
    }
    let (connection, _) = memory();
    connection.gone.cancel();
    Connection {
        incoming,
        calls_outlive_it: true,
        ..connection
    }
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
        self.output.receive().await
    }

    /// Ends the client's input; what the server still says can be received.
    pub fn finish(self) -> Listener {
        self.output
    }
}

/// What is left of a peer that has finished sending.
pub struct Listener(Arc<Queue>);

impl Listener {
    async fn receive(&mut self) -> Option<String> {
        let line = self.0.take().await?;
        Some(String::from_utf8_lossy(&line).trim_end().to_string())
    }

    /// All lines until the server ends.
    pub async fn lines(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.receive().await {
            lines.push(line);
        }
        lines
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.close();
    }
}
