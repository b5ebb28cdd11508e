//! A worker, from one image of the server's process to the next.

use std::io;
use std::os::fd::{AsFd, RawFd};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::Worker;
use super::conversation::{Conversation, Outstanding};
use crate::bytes::Bytes;
use crate::capture::{Meter, StreamLeft};
use crate::end::End;
use crate::mutex::lock;
use crate::phrase_log::Unfiled;
use crate::process_group;
use crate::reexec::{keep_open, take_back};

/// What the next image needs of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerLeft {
    process: ProcessLeft,
    unfiled: Unfiled,
}

#[derive(Debug, Serialize, Deserialize)]
enum ProcessLeft {
    /// One that is none the wiser.
    Lives(Living),
    /// One that has ended, and how.
    Ended(End),
}

#[derive(Debug, Serialize, Deserialize)]
struct Living {
    pid: i32,
    streams: [StreamLeft; 2],
    conversation: ConversationLeft,
}

impl Worker {
    /// Leaves the worker to the next image.
    pub fn leave(&self) -> io::Result<WorkerLeft> {
        let process = match self.end() {
            Some(end) => ProcessLeft::Ended(end),
            None => ProcessLeft::Lives(self.leave_process()?),
        };
        let unfiled = self.conversation().unfiled();
        Ok(WorkerLeft { process, unfiled })
    }

    fn leave_process(&self) -> io::Result<Living> {
        let left = Living {
            pid: self.pid(),
            streams: self.meter().leave()?,
            conversation: self.conversation().leave()?,
        };
        // It is not among those that end with this image.
        process_group::forget(left.pid);
        Ok(left)
    }

    /// The worker that the image before this one left. To be called once for each.
    pub fn resume(left: WorkerLeft) -> io::Result<Worker> {
        let WorkerLeft { process, unfiled } = left;
        let end = match process {
            ProcessLeft::Ended(end) => end,
            ProcessLeft::Lives(left) => match Worker::resume_process(left, unfiled.clone()) {
                Ok(worker) => return Ok(worker),
                Err(error) => {
                    log::error!("going on with a worker: {error}");
                    End::Signal(Signal::KILL.as_raw())
                }
            },
        };
        Worker::that_has_ended(end, unfiled)
    }

    fn resume_process(left: Living, unfiled: Unfiled) -> io::Result<Worker> {
        let meter = Meter::resume(left.streams)?;
        let conversation = Conversation::resume(left.conversation, meter.clone())?;
        let conversation = conversation.knowing(unfiled);
        let pid = Pid::from_raw(left.pid).ok_or(io::ErrorKind::InvalidData)?;
        process_group::remember(left.pid);
        // One that has ended meanwhile was not waited for yet, and tells how.
        Worker::watch(pid, meter, Arc::new(conversation))
    }
}

impl Conversation {
    /// What the next image needs, but for the meter. The groups are not among those that end
    /// with this image.
    fn leave(&self) -> io::Result<ConversationLeft> {
        self.groups().into_iter().for_each(process_group::forget);
        Ok(ConversationLeft {
            socket: keep_open(self.socket.as_fd())?,
            unsent: Bytes(lock(&self.unsent).clone().into()),
            bytes: Bytes(lock(&self.bytes).clone()),
            outstanding: self.outstanding(),
            groups: self.groups(),
        })
    }

    /// Goes on where the image before this one left it. To be called once for each.
    fn resume(left: ConversationLeft, meter: Meter) -> io::Result<Conversation> {
        let mut conversation = Conversation::new(take_back(left.socket)?.into(), meter)?;
        conversation.unsent = Mutex::new(left.unsent.0.into());
        conversation.bytes = Mutex::new(left.bytes.0);
        conversation.outstanding = Mutex::new(left.outstanding);
        left.groups
            .iter()
            .copied()
            .for_each(process_group::remember);
        conversation.groups = Mutex::new(left.groups);
        Ok(conversation)
    }
}

/// A conversation, from one image of the server's process to the next.
#[derive(Debug, Serialize, Deserialize)]
struct ConversationLeft {
    socket: RawFd,
    unsent: Bytes,
    /// What was read of a line that is not complete.
    bytes: Bytes,
    outstanding: Outstanding,
    groups: Vec<i32>,
}
