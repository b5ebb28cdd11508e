//! The way out: lines in order, none lost, the sender never held up.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{mpsc, oneshot};

/// What waits to be written.
#[derive(Debug)]
pub enum Output {
    /// One JSON text without a line break.
    Line(String),
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
    /// Lines that the writer has not written yet.
    pub waiting: AtomicUsize,
}

/// A pipe or socket that polls as writable takes so much at once (POSIX's PIPE_BUF).
const SHORT: usize = 4096;

impl Outgoing {
    pub fn new(queue: mpsc::UnboundedSender<Output>, direct: Option<Arc<Direct>>) -> Outgoing {
        Outgoing { queue, direct }
    }

    /// Sends a line. If the client has gone it is dropped; the connection's `gone` tells.
    pub fn line(&self, mut line: String) {
        line.push('\n');
        if let Some(direct) = &self.direct {
            if direct.takes(&line) && (&direct.file).write_all(line.as_bytes()).is_ok() {
                return;
            }
            direct.waiting.fetch_add(1, Ordering::AcqRel);
        }
        let _ = self.queue.send(Output::Line(line));
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
    fn takes(&self, line: &str) -> bool {
        if line.len() > SHORT || self.waiting.load(Ordering::Acquire) > 0 {
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
