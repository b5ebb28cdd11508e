//! The parent's end of a worker's socket: one request, its reply, the next request.
//!
//! A reply is `done`, up to where the worker's stdout and stderr have been reported, and a
//! result as JSON. Before it come announcements: `at N`, a replay is at its phrase N;
//! `group N` and `gone N`, a process group that the worker has begun or waited for; what of
//! its phrase log no file holds (`phrase_log/unfiled.rs`).

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

use crate::capture::Meter;
use crate::end::End;
use crate::mutex::lock;
use crate::phrase_log::Unfiled;
use crate::process_group;
use crate::session::{Journal, Line};
use crate::stdio;

/// Something for a worker to do.
pub struct Request {
    pub line: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
    pub what: Outstanding,
    /// Gets the reply, or how the process ended.
    pub reply: Box<dyn FnOnce(Result<Line, End>) + Send>,
}

/// A socket, and what has come over it.
pub struct Conversation {
    pub(super) socket: UnixStream,
    /// What is not sent yet of a request that has been begun.
    pub(super) unsent: Mutex<VecDeque<u8>>,
    /// What was read of the next line.
    pub(super) bytes: Mutex<Vec<u8>>,
    meter: Meter,
    at: AtomicUsize,
    pub(super) groups: Mutex<Vec<i32>>,
    pub(super) outstanding: Mutex<Outstanding>,
    pub(super) unfiled: Mutex<Unfiled>,
    journal: Mutex<Arc<Journal>>,
}

/// The request that has no reply yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub enum Outstanding {
    #[default]
    None,
    Job,
    /// For a copy; of no use to another image of this process.
    Copy,
}

impl Conversation {
    pub fn new(socket: OwnedFd, meter: Meter) -> io::Result<Conversation> {
        let socket = std::os::unix::net::UnixStream::from(stdio::private(&socket)?);
        socket.set_nonblocking(true)?;
        Ok(Conversation {
            socket: UnixStream::from_std(socket)?,
            unsent: Mutex::default(),
            bytes: Mutex::default(),
            meter,
            at: AtomicUsize::new(0),
            groups: Mutex::default(),
            outstanding: Mutex::default(),
            unfiled: Mutex::default(),
            journal: Mutex::default(),
        })
    }

    /// Passes requests on, one after the other, until there are no more.
    pub async fn go_on(
        self: Arc<Self>,
        mut requests: mpsc::UnboundedReceiver<Request>,
        mut ended: watch::Receiver<Option<End>>,
        pid: Pid,
    ) {
        while let Some(Request {
            line,
            descriptors,
            what,
            reply,
        }) = requests.recv().await
        {
            let result = match self.answer(&line, &descriptors, what).await {
                Ok(line) => Ok(line),
                Err(_) => {
                    // It has ended, or has closed its socket and is of no use any more.
                    if ended.borrow().is_none() {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                    let end = ended.wait_for(Option::is_some).await;
                    Err(end.ok().and_then(|end| *end).unwrap_or(End::Exit(0)))
                }
            };
            reply(result);
        }
    }

    /// What the worker says to a request, or has said to it.
    async fn answer(
        &self,
        line: &[u8],
        descriptors: &[OwnedFd],
        what: Outstanding,
    ) -> io::Result<Line> {
        if what == Outstanding::Copy {
            return self.ask(line, descriptors, what).await;
        }
        let journal = Arc::clone(&lock(&self.journal));
        if let Some(reply) = journal.reply_of_before() {
            return Ok(reply);
        }
        let reply = match journal.was_sent() && self.outstanding() == Outstanding::Job {
            true => self.outstanding_reply().await?,
            false => self.ask(line, &[], Outstanding::Job).await?,
        };
        journal.add(&reply);
        Ok(reply)
    }

    /// Sends a request, once the worker has nothing else to say, and receives its reply.
    async fn ask(
        &self,
        line: &[u8],
        descriptors: &[OwnedFd],
        what: Outstanding,
    ) -> io::Result<Line> {
        if self.outstanding() != Outstanding::None {
            // Of the image before this one: nobody waits for it.
            self.outstanding_reply().await?;
        }
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let sent = self.socket.async_io(Interest::WRITABLE, || {
            let sent = self.send(line, &descriptors)?;
            *lock(&self.outstanding) = what;
            *lock(&self.unsent) = line[sent..].to_vec().into();
            Ok(())
        });
        sent.await?;
        self.outstanding_reply().await
    }

    /// Has the worker join, its first request.
    pub async fn join(&self, line: &[u8]) -> io::Result<Line> {
        self.ask(line, &[], Outstanding::Job).await
    }

    /// The reply to the request that was begun, once all of it is sent.
    async fn outstanding_reply(&self) -> io::Result<Line> {
        while !lock(&self.unsent).is_empty() {
            let sent = self.socket.async_io(Interest::WRITABLE, || {
                let mut unsent = lock(&self.unsent);
                let sent = self.send(unsent.make_contiguous(), &[])?;
                unsent.drain(..sent);
                Ok(())
            });
            sent.await?;
        }
        self.reply().await
    }

    /// Sends as much as goes at once, with descriptors.
    fn send(&self, bytes: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !with.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(with));
        }
        let bytes = [IoSlice::new(bytes)];
        let flags = SendFlags::NOSIGNAL;
        Ok(sendmsg(&self.socket, &bytes, &mut ancillary, flags)?)
    }

    /// Receives the reply to a request that was sent.
    async fn reply(&self) -> io::Result<Line> {
        loop {
            while let Some(line) = self.next_line() {
                if let Some(reply) = self.understand(&line) {
                    *lock(&self.outstanding) = Outstanding::None;
                    return Ok(reply);
                }
            }
            self.socket.readable().await?;
            let mut chunk = [0; 1 << 14];
            match self.socket.try_read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => lock(&self.bytes).extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn next_line(&self) -> Option<Vec<u8>> {
        let mut bytes = lock(&self.bytes);
        let length = bytes.iter().position(|byte| *byte == b'\n')?;
        Some(bytes.drain(..=length).collect())
    }

    /// Takes note of an announcement; returns the JSON of a reply.
    fn understand(&self, line: &[u8]) -> Option<Line> {
        let mut words = line.splitn(4, |byte| *byte == b' ');
        let kind = words.next()?;
        let mut number = || {
            let word = std::str::from_utf8(words.next()?).ok()?;
            word.trim().parse::<u64>().ok()
        };
        match kind {
            b"done" => {
                self.meter.set_reported([number()?, number()?]);
                return Some(words.next()?.to_vec());
            }
            b"at" => self.at.store(number()? as usize, Ordering::Relaxed),
            b"group" => {
                let group = number()? as i32;
                process_group::remember(group);
                lock(&self.groups).push(group);
            }
            b"gone" => {
                let gone = number()? as i32;
                process_group::forget(gone);
                lock(&self.groups).retain(|group| *group != gone);
            }
            _ if lock(&self.unfiled).note(line) => {}
            _ => log::warn!("a worker says {:?}", String::from_utf8_lossy(line)),
        }
        None
    }

    /// What is asked from now on is another replay, or none.
    pub fn begin_replay(&self) {
        self.at.store(0, Ordering::Relaxed);
    }

    pub fn replaying(&self) -> Option<usize> {
        Some(self.at.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    /// Process groups that the worker has begun and not waited for.
    pub fn groups(&self) -> Vec<i32> {
        lock(&self.groups).clone()
    }

    /// What the call whose turn it is has been told goes there from now on.
    pub fn keep(&self, journal: &Arc<Journal>) {
        *lock(&self.journal) = Arc::clone(journal);
    }

    pub(super) fn outstanding(&self) -> Outstanding {
        *lock(&self.outstanding)
    }

    /// What of the worker's phrase log no file holds.
    pub fn unfiled(&self) -> Unfiled {
        lock(&self.unfiled).clone()
    }

    /// With what it is known to hold.
    pub fn knowing(mut self, unfiled: Unfiled) -> Conversation {
        self.unfiled = Mutex::new(unfiled);
        self
    }
}
