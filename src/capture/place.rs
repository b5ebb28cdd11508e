//! Where a stream's file is: on a disk that has room for it, or in memory.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, fstatvfs};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::{overflow, stdio};

/// Bytes that memory holds of one evaluation's output, where no disk does.
pub const IN_MEMORY: u64 = 64 << 20;

/// A disk with less room is as good as full when an evaluation begins.
const LOW: u64 = 4 << 20;
/// One with less room is full.
const LOWEST: u64 = 64 << 10;

/// A stream's file.
pub struct Place {
    pub file: File,
    pub is_in_memory: bool,
}

impl Place {
    /// On the first disk that has room, else in memory.
    pub fn find() -> io::Result<Place> {
        Place::on_disk().or_else(|_| Place::in_memory())
    }

    /// In `~/.topup/overflow`, where a long output can become a spilled file without being
    /// copied, else where temporary files are.
    pub fn on_disk() -> io::Result<Place> {
        let near = overflow::directory().and_then(tempfile::tempfile_in);
        let place = near
            .and_then(Place::with_room)
            .or_else(|_| tempfile::tempfile().and_then(Place::with_room))?;
        let private = Permissions::from_mode(0o600);
        place.file.set_permissions(private)?;
        Ok(place)
    }

    fn with_room(file: File) -> io::Result<Place> {
        if is_low(&file) {
            return Err(Errno::NOSPC.into());
        }
        Ok(Place {
            file: for_appending(file)?,
            is_in_memory: false,
        })
    }

    pub fn in_memory() -> io::Result<Place> {
        let file = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
        Ok(Place {
            file: for_appending(file)?,
            is_in_memory: true,
        })
    }
}

/// Whether the file's disk has little room.
pub fn is_low(file: &File) -> bool {
    room(file) < LOW
}

/// Whether the file's disk has none, so that what was written may have been refused.
pub fn is_full(file: &File) -> bool {
    room(file) < LOWEST
}

/// Bytes; a file system that does not count them has enough.
fn room(file: &File) -> u64 {
    match fstatvfs(file) {
        Ok(disk) if disk.f_blocks > 0 => disk.f_bavail.saturating_mul(disk.f_frsize),
        _ => u64::MAX,
    }
}

/// Whether a file of ours that ends at `end` may soon not grow (`ulimit -f`).
pub fn is_nearly_too_long(end: u64) -> bool {
    static LONGEST: LazyLock<u64> = LazyLock::new(|| {
        let limit = getrlimit(Resource::Fsize).current;
        limit.unwrap_or(u64::MAX)
    });
    end > 0 && end.saturating_add(LOWEST) > *LONGEST
}

/// The file on a descriptor above the numbers that user code is likely to close or reuse.
fn for_appending(file: File) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags | OFlags::APPEND)?;
    Ok(File::from(stdio::private(&file)?))
}
