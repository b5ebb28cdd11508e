//! The way out: lines in order, none lost, the sender never held up.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::PollFlags;
use tokio::sync::Notify;

use super::ready::poll;
use super::room::Room;
use crate::mutex::lock;

/// The server's end. A short line goes straight to a descriptor that takes it without
/// blocking; everything else waits its turn for who writes.
pub struct Outgoing {
    queue: Arc<Queue>,
    direct: Option<Arc<File>>,
}

impl Outgoing {
    /// What `queue` is to hold; `direct` is where who takes from it writes.
    pub fn new(queue: Arc<Queue>, direct: Option<Arc<File>>) -> Outgoing {
        Outgoing { queue, direct }
    }

    /// Sends a line. If the client has gone it is dropped; the connection's `gone` tells.
    pub fn line(&self, line: String) {
        let mut line = line.into_bytes();
        line.push(b'\n');
        self.queue.add(line, self.direct.as_deref());
    }

    /// The room for what waits to be written.
    pub fn room(&self) -> Room {
        self.queue.room.clone()
    }

    /// Completes when everything sent so far has been written, or the client has gone.
    pub async fn flushed(&self) {
        loop {
            // Made before the look, so that no word in between is missed.
            let done = self.queue.done.notified();
            if lock(&self.queue.state).is_done() {
                return;
            }
            done.await;
        }
    }

    /// Takes what is not written yet, and writes nothing any more.
    pub fn rest(&self) -> Vec<u8> {
        let mut state = lock(&self.queue.state);
        state.gone = true;
        let written = std::mem::take(&mut state.written);
        let mut rest = Vec::from(std::mem::take(&mut state.lines)).concat();
        rest.drain(..written);
        rest
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        lock(&self.queue.state).over = true;
        self.queue.more.notify_all();
        self.queue.more_here.notify_one();
    }
}

/// What waits to be written. Shared by who says it and who writes it.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Told of more, and of the end.
    more: Condvar,
    /// The same, for one who must not block.
    more_here: Notify,
    /// Told when nothing waits any more.
    done: Notify,
    room: Room,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// So much of the first one is written.
    written: usize,
    /// Nothing more will be said.
    over: bool,
    /// Nothing more will be written.
    gone: bool,
}

impl State {
    fn is_done(&self) -> bool {
        self.gone || self.lines.is_empty()
    }
}

/// A pipe or socket that polls as writable takes so much at once (POSIX's PIPE_BUF).
const SHORT: usize = 4096;

impl Queue {
    /// A queue that begins with what another one held.
    pub fn of(rest: &[u8]) -> Queue {
        let queue = Queue::default();
        if !rest.is_empty() {
            queue.add(rest.to_vec(), None);
        }
        queue
    }

    fn add(&self, line: Vec<u8>, direct: Option<&File>) {
        let mut state = lock(&self.state);
        if state.gone {
            return;
        }
        let length = line.len();
        self.room.taken(length);
        state.lines.push_back(line);
        if let Some(file) = direct.filter(|_| state.lines.len() == 1 && length <= SHORT) {
            // What goes wrong the writer meets again.
            let _ = self.write_some(&mut state, file);
        }
        if !state.is_done() {
            self.more.notify_one();
            self.more_here.notify_one();
        }
    }

    /// The next line that nobody has begun to write; `None` after the last.
    pub async fn take(&self) -> Option<Vec<u8>> {
        loop {
            let more = self.more_here.notified();
            {
                let mut state = lock(&self.state);
                if let Some(line) = state.lines.pop_front() {
                    self.wrote(&state, line.len());
                    return Some(line);
                }
                if state.over {
                    return None;
                }
            }
            more.await;
        }
    }

    /// Writes what is said until nothing more will be. A piece at a time, and only when the
    /// descriptor takes it at once: at any moment it is known what is written.
    pub fn write(&self, file: &File) -> io::Result<()> {
        loop {
            let mut state = lock(&self.state);
            while state.is_done() {
                if state.over || state.gone {
                    return Ok(());
                }
                state = self.wait(state);
            }
            if !self.write_some(&mut state, file)? {
                drop(state);
                poll(file, PollFlags::OUT, None)?;
            }
        }
    }

    /// Writes a piece of the first line; false if the descriptor takes nothing now.
    fn write_some(&self, state: &mut State, mut file: &File) -> io::Result<bool> {
        let ready = poll(file, PollFlags::OUT, Some(Duration::ZERO))?;
        let Some(line) = state.lines.front().filter(|_| !ready.is_empty()) else {
            return Ok(false);
        };
        let piece = &line[state.written..];
        let length = match file.write(&piece[..piece.len().min(SHORT)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        state.written += length;
        if state.written == line.len() {
            state.lines.pop_front();
            state.written = 0;
        }
        self.wrote(state, length);
        Ok(true)
    }

    fn wrote(&self, state: &State, length: usize) {
        self.room.freed(length);
        if state.is_done() {
            self.done.notify_waiters();
        }
    }

    /// Nobody will take what is said.
    pub fn close(&self) {
        lock(&self.state).gone = true;
        self.room.give_up();
        self.done.notify_waiters();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.more.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}
