//! What user code writes to fds 1 and 2, cut at the boundaries of evaluations.
//!
//! Each stream goes to an unlinked file, opened for appending, and an evaluation's output
//! is the stretch that was added since the last one. A file needs no reader, so nothing
//! blocks or deadlocks however much is written; what background threads and children
//! write between two evaluations is kept and belongs to the next.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};

use crate::overflow::{self, Cut};

/// The files behind fds 1 and 2. Owned by the eval thread; clones watch the sizes.
pub struct Capture {
    stdout: Stream,
    stderr: Stream,
}

impl Capture {
    /// Puts a fresh file behind fds 1 and 2 each.
    pub fn start() -> io::Result<Capture> {
        let capture = Capture { stdout: Stream::create()?, stderr: Stream::create()? };
        capture.attach()?;
        Ok(capture)
    }

    /// A second handle that only tells how much was written.
    pub fn meter(&self) -> io::Result<Meter> {
        Ok(Meter { stdout: self.stdout.file.try_clone()?, stderr: self.stderr.file.try_clone()? })
    }

    /// Puts the files behind fds 1 and 2 again, in case user code redirected them.
    pub fn attach(&self) -> io::Result<()> {
        rustix::stdio::dup2_stdout(&self.stdout.file)?;
        rustix::stdio::dup2_stderr(&self.stderr.file)?;
        Ok(())
    }

    /// What was written since the last call: stdout, stderr.
    pub fn take(&mut self, inline_max: usize) -> (Cut, Cut) {
        (self.stdout.take("stdout", inline_max), self.stderr.take("stderr", inline_max))
    }
}

/// Bytes written to both streams since the process started.
pub struct Meter {
    stdout: File,
    stderr: File,
}

impl Meter {
    pub fn written(&self) -> u64 {
        let length = |file: &File| file.metadata().map_or(0, |m| m.len());
        length(&self.stdout) + length(&self.stderr)
    }
}

struct Stream {
    file: File,
    /// Where the next evaluation's output begins.
    offset: u64,
    /// Up to where the file's blocks were given back.
    released: u64,
}

/// Blocks are given back in steps of this many bytes.
const RELEASE: u64 = 1 << 20;

impl Stream {
    fn create() -> io::Result<Stream> {
        let file = match overflow::directory() {
            Ok(directory) => tempfile::tempfile_in(directory).or_else(|_| tempfile::tempfile())?,
            Err(_) => tempfile::tempfile()?,
        };
        let flags = fcntl_getfl(&file)?;
        fcntl_setfl(&file, flags | OFlags::APPEND)?;
        // Above the numbers that user code is likely to close or reuse.
        let file = File::from(rustix::io::fcntl_dupfd_cloexec(&file, 100)?);
        Ok(Stream { file, offset: 0, released: 0 })
    }

    fn take(&mut self, name: &'static str, inline_max: usize) -> Cut {
        let end = self.file.metadata().map_or(self.offset, |m| m.len());
        // User code can truncate its own stdout; what it cut off is gone.
        let start = self.offset.min(end);
        self.offset = end;
        let cut = self.cut(name, start, end, inline_max);
        if end - self.released >= RELEASE {
            self.release(end);
        }
        cut
    }

    fn cut(&self, name: &'static str, start: u64, end: u64, inline_max: usize) -> Cut {
        let length = end - start;
        let inline = length.min(inline_max as u64) as usize;
        let mut head = vec![0; inline];
        if let Err(error) = self.file.read_exact_at(&mut head, start) {
            log::error!("reading captured {name}: {error}");
        }
        if length <= inline_max as u64 {
            return Cut::whole(head);
        }
        Cut::spilled(head, length, self.spill(name, start, length))
    }

    fn spill(&self, name: &'static str, start: u64, length: u64) -> io::Result<PathBuf> {
        // The reading position is ours alone: writes append wherever it is.
        let mut from = self.file.try_clone()?;
        from.seek(SeekFrom::Start(start))?;
        overflow::store(name, &mut io::Read::take(from, length))
    }

    fn release(&mut self, end: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes keeps the bytes until the process ends.
        let _ = fallocate(self.file.as_fd(), flags, self.released, end - self.released);
        self.released = end;
    }
}
