//! A worker, from one image of the server's process to the next.

use std::io;
use std::sync::Arc;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::Worker;
use super::conversation::{Conversation, ConversationLeft};
use crate::capture::{Meter, StreamLeft};
use crate::process_group;

/// What the next image needs of a worker, which is none the wiser.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerLeft {
    pid: i32,
    streams: [StreamLeft; 2],
    conversation: ConversationLeft,
}

impl Worker {
    /// Leaves the worker to the next image. `None` if it has ended.
    pub fn leave(&self) -> io::Result<Option<WorkerLeft>> {
        if !self.is_alive() {
            return Ok(None);
        }
        let left = WorkerLeft {
            pid: self.pid(),
            streams: self.meter().leave()?,
            conversation: self.conversation().leave()?,
        };
        // It is not among those that end with this image.
        process_group::forget(left.pid);
        Ok(Some(left))
    }

    /// The worker that the image before this one left. To be called once for each.
    pub fn resume(left: WorkerLeft) -> io::Result<Worker> {
        let meter = Meter::resume(left.streams)?;
        let conversation = Conversation::resume(left.conversation, meter.clone())?;
        let pid = Pid::from_raw(left.pid).ok_or(io::ErrorKind::InvalidData)?;
        process_group::remember(left.pid);
        Worker::watch(pid, meter, Arc::new(conversation))
    }
}
