//! The way out: lines in order, none lost, the sender never held up.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{mpsc, oneshot};

use super::room::Room;

/// What waits to be written.
#[derive(Debug)]
pub enum Output {
    /// One JSON text and its line break, or what is left of them.
    Line(Vec<u8>),
    /// Answered when everything before it has been written.
    Flush(oneshot::Sender<()>),
}

/// The server's end. A short line goes straight to a descriptor that takes it without
/// blocking; everything else waits its turn for the writer.
pub struct Outgoing {
    queue: mpsc::UnboundedSender<Output>,
    direct: Option<Arc<Direct>>,
}

/// A descriptor that both the server and the writer thread write to, the former only when
/// the latter has nothing to do.
pub struct Direct {
    pub file: File,
    /// For what the writer has not written yet.
    pub room: Room,
}

/// A pipe or socket that polls as writable takes so much at once (POSIX's PIPE_BUF).
const SHORT: usize = 4096;

impl Outgoing {
    pub fn new(queue: mpsc::UnboundedSender<Output>, direct: Option<Arc<Direct>>) -> Outgoing {
        Outgoing { queue, direct }
    }

    /// Sends a line. If the client has gone it is dropped; the connection's `gone` tells.
    pub fn line(&self, line: String) {
        let mut line = line.into_bytes();
        line.push(b'\n');
        if let Some(direct) = &self.direct {
            let written = direct.write(&line);
            if written == line.len() {
                return;
            }
            line.drain(..written);
            direct.room.taken(line.len());
        }
        let _ = self.queue.send(Output::Line(line));
    }

    /// The room for what waits to be written; there always is if nobody counts.
    pub fn room(&self) -> Room {
        let counted = self.direct.as_ref().map(|direct| direct.room.clone());
        counted.unwrap_or_default()
    }

    /// Completes when everything sent so far has been written, or the client has gone.
    pub async fn flushed(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Output::Flush(done)).is_ok() {
            let _ = flushed.await;
        }
    }
}

impl Direct {
    /// Writes as much of a line as goes at once; what goes wrong the writer meets again.
    fn write(&self, line: &[u8]) -> usize {
        let mut written = 0;
        while written < line.len() && self.takes(line.len() - written) {
            match (&self.file).write(&line[written..]) {
                Ok(length) => written += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }

    fn takes(&self, length: usize) -> bool {
        if length > SHORT || !self.room.is_empty() {
            return false;
        }
        let mut descriptors = [PollFd::new(&self.file, PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut descriptors, Some(&now)).is_ok() && descriptors[0].revents() == PollFlags::OUT
    }
}
