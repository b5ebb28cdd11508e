//! What user code writes to fds 1 and 2, cut at the boundaries of evaluations.
//!
//! Each stream goes to an unlinked file, opened for appending, and an evaluation's output
//! is the stretch that was added since the last one. A file needs no reader, so nothing
//! blocks or deadlocks however much is written; what background threads and children
//! write between two evaluations is kept and belongs to the next. Where the disk is full,
//! the file is one in memory.

mod place;
mod stream;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::fcntl_getfd;
use serde::{Deserialize, Serialize};

use crate::mutex::lock;
use crate::overflow::Cut;
use crate::reexec::{keep_open, take_back};
use crate::stdio;
pub use place::IN_MEMORY;
use place::Place;
use stream::{Stream, copy, length, read};

/// The files behind fds 1 and 2. Owned by the eval thread.
pub struct Capture {
    stdout: Stream,
    stderr: Stream,
}

/// What an evaluation printed.
#[derive(Debug, Default)]
pub struct Taken {
    pub stdout: Cut,
    pub stderr: Cut,
    /// What could not be stored, and why.
    pub notice: Option<String>,
}

impl Capture {
    /// Puts a fresh file behind fds 1 and 2 each.
    pub fn start() -> io::Result<Capture> {
        let stdout = Stream::start("stdout", |file| rustix::stdio::dup2_stdout(file))?;
        let stderr = Stream::start("stderr", |file| rustix::stdio::dup2_stderr(file))?;
        Ok(Capture { stdout, stderr })
    }

    /// Over the files behind fds 1 and 2 that another process reads, too: they are never
    /// replaced.
    pub fn of(stdout: File, stderr: File) -> io::Result<Capture> {
        let stdout = Stream::of("stdout", |file| rustix::stdio::dup2_stdout(file), stdout)?;
        let stderr = Stream::of("stderr", |file| rustix::stdio::dup2_stderr(file), stderr)?;
        Ok(Capture { stdout, stderr })
    }

    /// Up to where both files have been reported.
    pub fn reported(&self) -> [u64; 2] {
        [&self.stdout, &self.stderr].map(|stream| stream.shared().offset.load(Ordering::Relaxed))
    }

    /// A handle for another thread that only tells how much was written.
    pub fn meter(&self) -> Meter {
        Meter([&self.stdout, &self.stderr].map(Stream::shared))
    }

    /// An evaluation begins: puts the files behind fds 1 and 2 again, in case user code
    /// redirected them, and others in their place if they cannot grow.
    pub fn attach(&mut self) -> io::Result<()> {
        if fcntl_getfd(rustix::stdio::stdin()).is_err() {
            // Else the next file that is opened would be stdin.
            stdio::no_stdin()?;
        }
        self.stdout.prepare()?;
        self.stderr.prepare()
    }

    /// Something could not be written: from here on it can be, to memory.
    pub fn make_room(&mut self) {
        self.stdout.make_room();
        self.stderr.make_room();
    }

    /// What was written since the last call.
    pub fn take(&mut self, inline_max: usize) -> Taken {
        let stdout = self.stdout.take(inline_max);
        let stderr = self.stderr.take(inline_max);
        let notice = self.stdout.trouble().or(self.stderr.trouble());
        Taken {
            stdout,
            stderr,
            notice,
        }
    }
}

/// What another thread sees of a stream.
#[derive(Clone)]
struct Shared {
    file: Arc<Mutex<File>>,
    /// Where the next evaluation's output begins.
    offset: Arc<AtomicU64>,
    in_memory: Arc<AtomicBool>,
}

impl Shared {
    fn new(place: Place) -> Shared {
        Shared {
            in_memory: Arc::new(place.is_in_memory.into()),
            file: Arc::new(Mutex::new(place.file)),
            offset: Arc::default(),
        }
    }

    fn leave(&self) -> io::Result<StreamLeft> {
        let file = lock(&self.file);
        Ok(StreamLeft {
            file: keep_open(file.as_fd())?,
            is_in_memory: self.in_memory.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
        })
    }

    fn resume(left: StreamLeft) -> io::Result<Shared> {
        let shared = Shared::new(Place {
            file: take_back(left.file)?,
            is_in_memory: left.is_in_memory,
        });
        shared.offset.store(left.offset, Ordering::Relaxed);
        Ok(shared)
    }
}

/// A stream's file, from one image of this process to the next.
#[derive(Debug, Serialize, Deserialize)]
pub struct StreamLeft {
    file: RawFd,
    is_in_memory: bool,
    offset: u64,
}

/// The sizes of both files.
#[derive(Clone)]
pub struct Meter([Shared; 2]);

impl Meter {
    /// Over two new files for another process to print to: stdout, stderr.
    pub fn start() -> io::Result<(Meter, [File; 2])> {
        let places = [Place::find()?, Place::find()?];
        let copies = [places[0].file.try_clone()?, places[1].file.try_clone()?];
        Ok((Meter(places.map(Shared::new)), copies))
    }

    /// Leaves the files to the next image of this process.
    pub fn leave(&self) -> io::Result<[StreamLeft; 2]> {
        let [stdout, stderr] = &self.0;
        Ok([stdout.leave()?, stderr.leave()?])
    }

    /// Over the files that the image before this one left.
    pub fn resume(left: [StreamLeft; 2]) -> io::Result<Meter> {
        let [stdout, stderr] = left;
        Ok(Meter([Shared::resume(stdout)?, Shared::resume(stderr)?]))
    }

    /// Up to where the files have been reported.
    pub fn set_reported(&self, offsets: [u64; 2]) {
        for (shared, now) in self.0.iter().zip(offsets) {
            shared.offset.store(now, Ordering::Relaxed);
        }
    }

    /// Bytes; the difference of two readings is what an evaluation wrote meanwhile.
    pub fn written(&self) -> u64 {
        self.0.iter().map(|s| length(&lock(&s.file))).sum()
    }

    /// Bytes that there are for one evaluation, if memory has to hold them.
    pub fn most(&self) -> u64 {
        let in_memory = self.0.iter().any(|s| s.in_memory.load(Ordering::Relaxed));
        if in_memory { IN_MEMORY } else { u64::MAX }
    }

    /// What was written since the capture was last taken: stdout, stderr. For when the
    /// thread that owns the capture can no longer take it.
    pub fn unreported(&self, inline_max: usize) -> (Cut, Cut) {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| {
            let shared = &self.0[usize::from(name == "stderr")];
            let file = lock(&shared.file);
            let (end, offset) = (length(&file), shared.offset.load(Ordering::Relaxed));
            let start = offset.min(end);
            if end - start <= inline_max as u64 {
                return Cut::whole(read(&file, name, start, end));
            }
            let head = read(&file, name, start, start + inline_max as u64);
            Cut::spilled(head, end - start, copy(&file, name, start, end))
        });
        (stdout, stderr)
    }
}
