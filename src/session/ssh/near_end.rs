//! Where ssh listens on this side, for as long as it takes to connect.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::getuid;
use tempfile::TempDir;

use super::LONGEST_PATH;

/// What our folders are called, but for their last letters.
const PREFIX: &str = "topup-ssh-";
/// The socket in one.
pub const SOCKET: &str = "s";
/// One that is older belongs to a process that was ended before it could remove it.
const OLD: Duration = Duration::from_secs(300);

/// A folder for this user alone, whose path leaves room for the socket's name.
pub fn folder() -> io::Result<TempDir> {
    let make = |parent: &Path| {
        sweep(parent);
        let mut builder = tempfile::Builder::new();
        builder.permissions(Permissions::from_mode(0o700));
        builder.prefix(PREFIX).tempdir_in(parent)
    };
    let folder = make(&std::env::temp_dir())?;
    if folder.path().join(SOCKET).as_os_str().len() < LONGEST_PATH {
        return Ok(folder);
    }
    make(Path::new("/tmp"))
}

/// Removes what processes of this user's have left in `parent`.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Of the entry itself, not of what a link leads to.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let age = metadata
            .modified()
            .map(|made| SystemTime::now().duration_since(made));
        let is_old = matches!(age, Ok(Ok(age)) if age > OLD);
        if metadata.is_dir() && metadata.uid() == getuid().as_raw() && is_old {
            let _ = fs::remove_file(entry.path().join(SOCKET));
            // If it holds anything else, it is none of ours, and stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
