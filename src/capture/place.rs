//! Where a stream's file is: on a disk that has room for it, or in memory.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::overflow;

/// Bytes that memory holds of one evaluation's output, where no disk does.
pub const IN_MEMORY: u64 = 64 << 20;

/// What an evaluation has at least when it begins.
const MARGIN: u64 = 64 << 10;
/// What is reserved at a time.
const RESERVE: u64 = 128 << 10;

/// A stream's file and the room that it has.
pub struct Place {
    pub file: File,
    /// The file's disk has room for it up to here; `None` in memory.
    pub reserved: Option<u64>,
}

impl Place {
    /// On the first disk that has room, else in memory.
    pub fn find() -> io::Result<Place> {
        Place::on_disk().or_else(|_| Place::in_memory())
    }

    /// In `~/.topup/overflow`, where a long output can become a spilled file without being
    /// copied, else where temporary files are.
    pub fn on_disk() -> io::Result<Place> {
        let near = || reserved(tempfile::tempfile_in(overflow::directory()?)?);
        near().or_else(|error| {
            // What is wrong with our own folder says more than what is wrong with TMPDIR.
            tempfile::tempfile().and_then(reserved).map_err(|_| error)
        })
    }

    pub fn in_memory() -> io::Result<Place> {
        let file = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
        Ok(Place {
            file: for_appending(file)?,
            reserved: None,
        })
    }
}

fn reserved(file: File) -> io::Result<Place> {
    let reserved = reserve(&file, 0, 0)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(Place {
        file: for_appending(file)?,
        reserved: Some(reserved),
    })
}

/// Makes sure that there is room for some output behind `end` in a file that has it up to
/// `reserved`; returns up to where there is.
pub fn reserve(file: &File, reserved: u64, end: u64) -> io::Result<u64> {
    if end.saturating_add(MARGIN) <= reserved {
        return Ok(reserved);
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, end, RESERVE) {
        Ok(()) => Ok(end + RESERVE),
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(error.into()),
        // A file system that reserves nothing: what happens shows when it is written to.
        Err(_) => Ok(u64::MAX),
    }
}

/// Whether a file of ours that ends at `end` may soon not grow (`ulimit -f`).
pub fn is_nearly_too_long(end: u64) -> bool {
    static LONGEST: LazyLock<u64> = LazyLock::new(|| {
        let limit = getrlimit(Resource::Fsize).current;
        limit.unwrap_or(u64::MAX)
    });
    end > 0 && end.saturating_add(MARGIN) > *LONGEST
}

/// The file on a descriptor above the numbers that user code is likely to close or reuse.
fn for_appending(file: File) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags | OFlags::APPEND)?;
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(&file, 100)?))
}
