//! `~/.topup`, where topup keeps its files.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use rustix::fs::FlockOperation::NonBlockingLockExclusive;
use rustix::fs::{CWD, RenameFlags, flock, renameat_with};
use tempfile::NamedTempFile;

/// `HOME` as it was when we started; user code may change the variable.
static HOME: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from)
});

/// To be called before user code can run.
pub fn remember() {
    LazyLock::force(&HOME);
}

/// The user's home directory.
pub fn home() -> io::Result<PathBuf> {
    let unset = || io::Error::new(io::ErrorKind::NotFound, "HOME is not set");
    HOME.clone().ok_or_else(unset)
}

/// `~/.topup/<name>`, made if it is not there, for this user alone.
pub fn folder(name: &str) -> io::Result<PathBuf> {
    let folder = home()?.join(".topup").join(name);
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    make(&folder).map_err(named)?;
    Ok(folder)
}

/// Makes a folder, and those that it is in, for this user alone.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A path with `~/` at its beginning resolved, as a shell would. Homes of other users are not.
pub fn expand(path: &OsStr) -> io::Result<PathBuf> {
    let first = Path::new(path).components().next();
    match Path::new(path).strip_prefix("~") {
        Ok(rest) => Ok(home()?.join(rest)),
        Err(_) if first.is_some_and(|first| first.as_os_str().as_encoded_bytes()[0] == b'~') => {
            let problem = "~ stands for your own home alone, as in ~/file; write out the home of \
                another user, and ./ before a name that begins with ~";
            Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
        }
        Err(_) => Ok(PathBuf::from(path)),
    }
}

/// A new file in `folder` with a name of its own, opened with `options`. It goes when it
/// is dropped, unless it is kept or persisted.
pub fn new_file(
    folder: &Path,
    prefix: &str,
    suffix: &str,
    mut options: OpenOptions,
) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(prefix)
        .suffix(suffix)
        .make_in(folder, |path| options.create_new(true).open(path))
}

/// Puts a file of mode 0600 that holds `contents` at `path`, in place of what is there: made
/// durable and then renamed, so that whatever happens the old file or the new one is there,
/// whole. A symbolic link is replaced, not followed.
pub fn store(path: &Path, contents: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    make(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let mut file = new_file(folder, ".", ".tmp", options)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// Renames `path` to `path.1`, or the first number that is free; returns that.
pub fn move_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let mut aside = path.as_os_str().to_os_string();
        aside.push(format!(".{number}"));
        match renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => continue,
            result => return result.map(|()| aside.into()).map_err(Into::into),
        }
    }
    unreachable!("the numbers do not end")
}

/// Removes the oldest files of a folder, so that with a new one there are `kept`; those that
/// a process holds a lock on stay, and those that `spared` knows.
pub fn prune(folder: &Path, kept: usize, spared: impl Fn(&Path) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let age = |entry: &DirEntry| entry.metadata().and_then(|m| m.modified()).ok();
    // What is from times to come, as the clock says now, is from before it was set back.
    let now = SystemTime::now();
    let mut files: Vec<(bool, SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((age(&entry)?, entry.path())))
        .map(|(age, path)| (age <= now, age, path))
        .collect();
    if files.len() < kept {
        return;
    }
    files.sort();
    let unused = |path: &Path| {
        File::open(path).is_ok_and(|file| flock(file, NonBlockingLockExclusive).is_ok())
    };
    for (_, _, path) in &files[..=files.len() - kept] {
        if unused(path) && !spared(path) {
            let _ = fs::remove_file(path);
        }
    }
}
