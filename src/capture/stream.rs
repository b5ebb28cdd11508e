//! One of the two streams: its file, and the stretch of it that is an evaluation's.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{FallocateFlags, fallocate};

use super::Shared;
use super::place::{IN_MEMORY, Place, is_full, is_low, is_nearly_too_long};
use crate::mutex::lock;
use crate::overflow::{self, Cut};

pub struct Stream {
    name: &'static str,
    /// Puts a file behind this stream's number.
    attach: fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    shared: Shared,
    /// Up to where the file's blocks were given back.
    released: u64,
    /// What the evaluation that is on could not store.
    trouble: Option<String>,
    /// Whether another process reads the file, so that no other can be put in its place.
    fixed: bool,
}

/// Blocks are given back in steps of this many bytes.
const RELEASE: u64 = 1 << 20;

impl Stream {
    pub fn start(
        name: &'static str,
        attach: fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> io::Result<Stream> {
        let place = Place::find()?;
        let stream = Stream {
            name,
            attach,
            shared: Shared::new(place),
            released: 0,
            trouble: None,
            fixed: false,
        };
        stream.attach()?;
        Ok(stream)
    }

    /// With a file that another process reads, too.
    pub fn of(
        name: &'static str,
        attach: fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
        file: File,
    ) -> io::Result<Stream> {
        let end = length(&file);
        let shared = Shared::new(Place {
            file,
            is_in_memory: false,
        });
        shared.offset.store(end, Ordering::Relaxed);
        let stream = Stream {
            name,
            attach,
            shared,
            released: 0,
            trouble: None,
            fixed: true,
        };
        stream.attach()?;
        Ok(stream)
    }

    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    fn attach(&self) -> io::Result<()> {
        Ok((self.attach)(lock(&self.shared.file).as_fd())?)
    }

    fn is_in_memory(&self) -> bool {
        self.shared.in_memory.load(Ordering::Relaxed)
    }

    /// Sees to it that what comes can be written.
    pub fn prepare(&mut self) -> io::Result<()> {
        if self.fixed {
            return self.attach();
        }
        let file = Arc::clone(&self.shared.file);
        let mut file = lock(&file);
        let end = length(&file);
        if self.is_in_memory() {
            let is_reported = self.shared.offset.load(Ordering::Relaxed) >= end;
            match Place::on_disk() {
                Ok(place) if is_reported => drop(self.put(&mut file, place)?),
                _ => {}
            }
        } else if is_low(&file) || is_nearly_too_long(end) {
            self.move_on(&mut file, Place::find()?)?;
        }
        drop(file);
        self.attach()
    }

    /// Goes on in memory, because a write has failed.
    pub fn make_room(&mut self) {
        let file = Arc::clone(&self.shared.file);
        let mut file = lock(&file);
        if !self.is_in_memory() && !self.fixed {
            let moved = Place::in_memory().and_then(|place| self.move_on(&mut file, place));
            if let Err(error) = moved {
                log::error!("a place in memory for {}: {error}", self.name);
            }
        }
        self.trouble = Some(format!(
            "the disk has no room for what the evaluation printed to {}: its own writes may have \
             failed, and its output may not be whole; make room in ~/.topup/overflow",
            self.name
        ));
    }

    /// What the evaluation that was last taken could not store.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    pub fn take(&mut self, inline_max: usize) -> Cut {
        let file = Arc::clone(&self.shared.file);
        let mut file = lock(&file);
        let mut end = length(&file);
        // User code can truncate its own stdout; what it cut off is gone.
        let start = self.shared.offset.load(Ordering::Relaxed).min(end);
        if end > start {
            self.look_for_trouble(&file, end - start > inline_max as u64);
        }
        if end - start <= inline_max as u64 {
            self.finish(&file, end);
            return Cut::whole(read(&file, self.name, start, end));
        }
        if start > 0 || self.fixed {
            let head = read(&file, self.name, start, start + inline_max as u64);
            let copy = copy(&file, self.name, start, end);
            self.finish(&file, end);
            return Cut::spilled(head, end - start, copy);
        }
        // The file holds nothing else, so it becomes the spilled one itself.
        let old = match Place::find().and_then(|place| self.put(&mut file, place)) {
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

    fn look_for_trouble(&mut self, file: &File, is_long: bool) {
        if self.trouble.is_some() {
        } else if self.is_in_memory() && is_long {
            self.trouble = Some(format!(
                "the disk is full: what an evaluation prints is kept in memory, {} MB at most, and \
                 not in files; make room in ~/.topup/overflow",
                IN_MEMORY >> 20
            ));
        } else if !self.is_in_memory() && is_full(file) {
            self.trouble = Some(format!(
                "the disk is full: what the evaluation printed to {} may not be whole; make room in \
                 ~/.topup/overflow",
                self.name
            ));
        }
    }

    /// Puts a file in the place of the current one, with what was not reported of that.
    fn move_on(&mut self, file: &mut File, place: Place) -> io::Result<()> {
        let end = length(file);
        let start = self.shared.offset.load(Ordering::Relaxed).min(end);
        if end - start > IN_MEMORY {
            return Err(io::Error::other("too much was printed already"));
        }
        let unreported = read(file, self.name, start, end);
        io::Write::write_all(&mut &place.file, &unreported)?;
        self.put(file, place).map(drop)
    }

    /// Puts a file in the place of the current one, which is returned.
    fn put(&mut self, file: &mut File, place: Place) -> io::Result<File> {
        (self.attach)(place.file.as_fd())?;
        self.shared.offset.store(0, Ordering::Relaxed);
        let in_memory = &self.shared.in_memory;
        in_memory.store(place.is_in_memory, Ordering::Relaxed);
        self.released = 0;
        Ok(std::mem::replace(file, place.file))
    }

    /// Everything before `end` has been reported.
    fn finish(&mut self, file: &File, end: u64) {
        self.shared.offset.store(end, Ordering::Relaxed);
        if end >= self.released + RELEASE {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // A file system without holes keeps the bytes until the process ends.
            let _ = fallocate(file, flags, self.released, end - self.released);
            self.released = end;
        }
    }
}

pub fn read(file: &File, name: &str, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = vec![0; (end - start) as usize];
    if let Err(error) = file.read_exact_at(&mut bytes, start) {
        log::error!("reading captured {name}: {error}");
    }
    bytes
}

pub fn copy(file: &File, name: &str, start: u64, end: u64) -> io::Result<PathBuf> {
    // The reading position is ours alone: writes append wherever it is.
    let mut from = file.try_clone()?;
    from.seek(SeekFrom::Start(start))?;
    overflow::store(name, &mut io::Read::take(from, end - start))
}

pub fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}
