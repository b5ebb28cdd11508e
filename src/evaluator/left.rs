//! A worker, from one image of the server's process to the next.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::Worker;
use super::conversation::{Conversation, Outstanding};
use crate::bytes::Bytes;
use crate::capture::{Meter, StreamLeft};
use crate::process_group;
use crate::reexec::{keep_open, take_back};

/// What the next image needs of a worker, which is none the wiser.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerLeft {
    pid: i32,
    socket: RawFd,
    streams: [StreamLeft; 2],
    /// What was read of a line that is not complete.
    bytes: Bytes,
    outstanding: Outstanding,
    groups: Vec<i32>,
}

impl Worker {
    /// Leaves the worker to the next image. `None` if it has ended.
    pub fn leave(&self) -> io::Result<Option<WorkerLeft>> {
        if !self.is_alive() {
            return Ok(None);
        }
        let (socket, bytes) = self.conversation().left();
        let left = WorkerLeft {
            pid: self.pid(),
            socket: keep_open(socket)?,
            streams: self.meter().leave()?,
            bytes: Bytes(bytes),
            outstanding: self.conversation().outstanding(),
            groups: self.conversation().groups(),
        };
        // It is not among those that end with this image.
        process_group::forget(left.pid);
        Ok(Some(left))
    }

    /// The worker that the image before this one left. To be called once for each.
    pub fn resume(left: WorkerLeft) -> io::Result<Worker> {
        let socket = take_back(left.socket)?;
        let meter = Meter::resume(left.streams)?;
        let conversation = Conversation::new(socket.into(), meter.clone())?;
        conversation.resume(left.bytes.0, left.outstanding, left.groups);
        let pid = Pid::from_raw(left.pid).ok_or(io::ErrorKind::InvalidData)?;
        Worker::watch(pid, meter, Arc::new(conversation))
    }
}
