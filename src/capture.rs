//! What user code writes to fds 1 and 2, cut at the boundaries of evaluations.
//!
//! Each stream goes to an unlinked file, opened for appending, and an evaluation's output
//! is the stretch that was added since the last one. A file needs no reader, so nothing
//! blocks or deadlocks however much is written; what background threads and children
//! write between two evaluations is kept and belongs to the next.

use std::fs::{File, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::fcntl_getfd;

use crate::overflow::{self, Cut};
use crate::{descriptors, stdio};

/// The files behind fds 1 and 2. Owned by the eval thread.
pub struct Capture {
    stdout: Stream,
    stderr: Stream,
}

impl Capture {
    /// Puts a fresh file behind fds 1 and 2 each.
    pub fn start() -> io::Result<Capture> {
        let stdout = Stream::start("stdout", |file| rustix::stdio::dup2_stdout(file))?;
        let stderr = Stream::start("stderr", |file| rustix::stdio::dup2_stderr(file))?;
        Ok(Capture { stdout, stderr })
    }

    /// A handle for another thread that only tells how much was written.
    pub fn meter(&self) -> Meter {
        Meter(
            [&self.stdout, &self.stderr]
                .map(|stream| (Arc::clone(&stream.file), Arc::clone(&stream.offset))),
        )
    }

    /// Puts the files behind fds 1 and 2 again, in case user code redirected them, and
    /// something behind fd 0 if it closed that.
    pub fn attach(&self) -> io::Result<()> {
        if fcntl_getfd(rustix::stdio::stdin()).is_err() {
            // Else the next file that is opened would be stdin.
            stdio::no_stdin()?;
        }
        self.stdout.attach()?;
        self.stderr.attach()
    }

    /// What was written since the last call: stdout, stderr.
    pub fn take(&mut self, inline_max: usize) -> (Cut, Cut) {
        (self.stdout.take(inline_max), self.stderr.take(inline_max))
    }
}

/// The sizes of both files.
pub struct Meter([(Arc<Mutex<File>>, Arc<AtomicU64>); 2]);

impl Meter {
    /// Bytes; the difference of two readings is what an evaluation wrote meanwhile.
    pub fn written(&self) -> u64 {
        self.0.iter().map(|(file, _)| length(&lock(file))).sum()
    }

    /// What was written since the capture was last taken: stdout, stderr. For when the
    /// thread that owns the capture can no longer take it.
    pub fn unreported(&self, inline_max: usize) -> (Cut, Cut) {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| {
            let (file, offset) = &self.0[usize::from(name == "stderr")];
            let file = lock(file);
            let (end, offset) = (length(&file), offset.load(Ordering::Relaxed));
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

struct Stream {
    name: &'static str,
    /// Puts a file behind this stream's number.
    attach: fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    file: Arc<Mutex<File>>,
    /// Where the next evaluation's output begins. Shared with the meter.
    offset: Arc<AtomicU64>,
    /// Up to where the file's blocks were given back.
    released: u64,
}

/// Blocks are given back in steps of this many bytes.
const RELEASE: u64 = 1 << 20;

impl Stream {
    fn start(
        name: &'static str,
        attach: fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> io::Result<Stream> {
        let file = Arc::new(Mutex::new(create()?));
        let stream = Stream {
            name,
            attach,
            file,
            offset: Arc::default(),
            released: 0,
        };
        stream.attach()?;
        Ok(stream)
    }

    fn attach(&self) -> io::Result<()> {
        Ok((self.attach)(lock(&self.file).as_fd())?)
    }

    fn take(&mut self, inline_max: usize) -> Cut {
        let file = Arc::clone(&self.file);
        let mut file = lock(&file);
        let mut end = length(&file);
        // User code can truncate its own stdout; what it cut off is gone.
        let start = self.offset.load(Ordering::Relaxed).min(end);
        if end - start <= inline_max as u64 {
            self.finish(&file, end);
            return Cut::whole(read(&file, self.name, start, end));
        }
        if start > 0 {
            let head = read(&file, self.name, start, start + inline_max as u64);
            let copy = copy(&file, self.name, start, end);
            self.finish(&file, end);
            return Cut::spilled(head, end - start, copy);
        }
        // The file holds nothing else, so it becomes the spilled one itself.
        let old = match self.replace(&mut file) {
            Ok(old) => old,
            Err(error) => {
                log::error!("a new file for {}: {error}", self.name);
                self.finish(&file, end);
                let head = read(&file, self.name, 0, inline_max as u64);
                return Cut::spilled(head, end, Err(error));
            }
        };
        end = length(&old);
        let head = read(&old, self.name, 0, inline_max as u64);
        let kept = overflow::adopt(self.name, &old).or_else(|_| copy(&old, self.name, 0, end));
        Cut::spilled(head, end, kept)
    }

    /// Puts a fresh file in the place of the current one, which is returned.
    fn replace(&mut self, file: &mut File) -> io::Result<File> {
        let fresh = create()?;
        (self.attach)(fresh.as_fd())?;
        self.offset.store(0, Ordering::Relaxed);
        self.released = 0;
        Ok(std::mem::replace(file, fresh))
    }

    /// Everything before `end` has been reported.
    fn finish(&mut self, file: &File, end: u64) {
        self.offset.store(end, Ordering::Relaxed);
        if end >= self.released + RELEASE {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // A file system without holes keeps the bytes until the process ends.
            let _ = fallocate(file, flags, self.released, end - self.released);
            self.released = end;
        }
    }
}

/// An unlinked file for appending, on a descriptor above the numbers that user code is
/// likely to close or reuse.
fn create() -> io::Result<File> {
    let file = match overflow::directory() {
        Ok(directory) => tempfile::tempfile_in(directory).or_else(|_| tempfile::tempfile())?,
        Err(_) => tempfile::tempfile()?,
    };
    file.set_permissions(Permissions::from_mode(0o600))?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags | OFlags::APPEND)?;
    let file = File::from(rustix::io::fcntl_dupfd_cloexec(&file, 100)?);
    descriptors::protect(&file);
    Ok(file)
}

fn read(file: &File, name: &str, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = vec![0; (end - start) as usize];
    if let Err(error) = file.read_exact_at(&mut bytes, start) {
        log::error!("reading captured {name}: {error}");
    }
    bytes
}

fn copy(file: &File, name: &str, start: u64, end: u64) -> io::Result<PathBuf> {
    // The reading position is ours alone: writes append wherever it is.
    let mut from = file.try_clone()?;
    from.seek(SeekFrom::Start(start))?;
    overflow::store(name, &mut io::Read::take(from, end - start))
}

fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

fn lock(file: &Mutex<File>) -> MutexGuard<'_, File> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
