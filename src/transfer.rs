//! Files that go from one machine to another, whole: read and written here, carried in
//! base64 by the tools `_send_blob` and `_recv_blob`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tokio_util::sync::CancellationToken;

use crate::home;
use crate::settings::{Transfer, TransferFolder};

/// A file's contents and its mode.
#[derive(Debug, PartialEq)]
pub struct Blob {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

/// The bits of a mode that go with a file: not those that lend its owner's rights.
const MODE: u32 = 0o777;

/// Where the file at `path` goes, or comes from, when its name alone is known: the file of
/// that name in the folder of transfers.
pub fn default_path(settings: &Transfer, path: &str, argument: &str) -> Result<PathBuf, String> {
    let Some(name) = Path::new(path).file_name() else {
        return Err(format!("{path:?} ends in no name of a file"));
    };
    let folder = match &settings.folder {
        TransferFolder::Off => {
            return Err(format!(
                "TOPUP_XFER_DIR is off: name the file by {argument}"
            ));
        }
        TransferFolder::At(folder) => {
            home::make(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            folder.clone()
        }
        TransferFolder::Default => {
            home::folder("xfer").map_err(|error| format!("~/.topup/xfer: {error}"))?
        }
    };
    Ok(folder.join(name))
}

/// A path as its side understands it.
pub fn resolve(path: &str) -> Result<PathBuf, String> {
    let absolute = home::expand(path.as_ref()).and_then(std::path::absolute);
    absolute.map_err(|error| format!("{path:?}: {error}"))
}

/// Reads a regular file of at most `max` bytes; the error says what is in the way. `limit`
/// says whose limit that is.
pub fn read(path: &Path, max: u64, limit: &str) -> Result<Blob, String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => {
            format!("{}: a symbolic link to what is not there", path.display())
        }
        io::ErrorKind::NotFound => format!("{}: there is no such file", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    let mut options = OpenOptions::new();
    // Without waiting for a writer, if it is a pipe.
    let options = options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        let path = path.display();
        return Err(format!("{path}: a folder; one file is copied at a time"));
    }
    if !metadata.is_file() {
        return Err(format!("{}: not a regular file", path.display()));
    }
    let size = metadata.len();
    fits(path, size, max, limit)?;
    let mut bytes = Vec::with_capacity(size as usize + 1);
    // One more than there should be, to see whether there is.
    (&file)
        .take(size + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if file.metadata().map_err(failed)?.len() != size {
        return Err(format!(
            "{}: its size changed while it was read; nothing was copied, try again when nobody writes to it",
            path.display()
        ));
    }
    if bytes.len() as u64 != size {
        return Err(format!(
            "{}: it says that it has {size} bytes and holds others, as files that the kernel makes \
             up do (/proc, /sys); copy it into a file first",
            path.display()
        ));
    }
    let mode = metadata.permissions().mode() & MODE;
    Ok(Blob { bytes, mode })
}

/// Fails if a file of `size` bytes is not copied.
pub fn fits(path: &Path, size: u64, max: u64, limit: &str) -> Result<(), String> {
    if size <= max {
        return Ok(());
    }
    Err(format!(
        "{}: {size} bytes; at most {max} are copied (TOPUP_XFER_MAX_BYTES {limit})",
        path.display()
    ))
}

/// Puts a file in the place of what is at `path`, unless that is taken back: all of it, or
/// nothing. A symbolic link stays, and the file that it leads to is replaced.
pub fn write(path: &Path, blob: &Blob, cancel: &CancellationToken) -> Result<(), String> {
    let path = &match path.is_symlink() {
        true => fs::canonicalize(path).map_err(|_| {
            let path = path.display();
            format!("{path}: a symbolic link to what is not there; remove it or name another file")
        })?,
        false => path.to_path_buf(),
    };
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            let path = path.display();
            return Err(format!("{path}: there is a folder; name the file in it"));
        }
        Ok(there) if !there.is_file() => {
            let path = path.display();
            return Err(format!("{path}: there is something that is no file"));
        }
        _ => {}
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(format!(
            "{}: the folder {} is not there; make it first",
            path.display(),
            folder.display()
        ));
    }
    let failed = |error: io::Error| format!("{}: {error}; nothing was written", path.display());
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let file = home::new_file(folder, ".topup-", ".tmp", options).map_err(failed)?;
    fill(file.as_file(), blob).map_err(failed)?;
    if cancel.is_cancelled() {
        return Err(format!(
            "{}: cancelled; nothing was written",
            path.display()
        ));
    }
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn fill(mut file: &File, blob: &Blob) -> io::Result<()> {
    file.write_all(&blob.bytes)?;
    file.set_permissions(Permissions::from_mode(blob.mode & MODE))?;
    // Some file systems tell only now that there is no room.
    file.sync_data()
}
