//! The file of a phrase log, which belongs to one process: that holds a lock on it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::{descriptors, home};

/// Records in a file.
pub struct LogFile {
    pub path: PathBuf,
    file: File,
    /// Bytes of whole records in the file.
    length: u64,
    /// Records that could not be written yet.
    pub pending: Vec<u8>,
}

/// How many private logs are kept; the oldest go, but none that is in use.
const KEPT: usize = 100;

impl LogFile {
    pub fn new(path: &Path, file: File) -> LogFile {
        descriptors::protect(&file);
        LogFile {
            path: path.to_path_buf(),
            file,
            length: 0,
            pending: Vec::new(),
        }
    }

    /// With `contents` in it.
    pub fn holding(mut self, contents: &[u8]) -> io::Result<LogFile> {
        self.pending.extend_from_slice(contents);
        self.write()?;
        Ok(self)
    }

    /// Writes what is pending, all of it or nothing.
    pub fn write(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() != self.length {
            return Err(io::Error::other("another program has changed the file"));
        }
        if let Err(error) = (&self.file).write_all(&self.pending) {
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    pub fn contents(&self) -> io::Result<Vec<u8>> {
        let mut contents = vec![0; self.length as usize];
        let read = self.file.read_exact_at(&mut contents, 0);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("another program has cut it short"),
            _ => error,
        })?;
        contents.extend_from_slice(&self.pending);
        Ok(contents)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// An empty private file, locked.
pub fn private() -> io::Result<LogFile> {
    let folder = home::folder("logs")?;
    home::prune(&folder, KEPT);
    let (file, path) = home::new_file(
        &folder,
        &format!("{}-", std::process::id()),
        ".ml",
        options(),
    )?
    .keep()?;
    lock(&file)?;
    log::info!("the phrase log is {}", path.display());
    Ok(LogFile::new(&path, file))
}

/// An empty, locked file at `path`. What is there already is moved aside.
pub fn claim(path: &Path) -> io::Result<LogFile> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return Err(io::Error::other("it is not a regular file"));
        }
        _ => {}
    }
    let file = options().create(true).open(path)?;
    lock(&file)?;
    if file.metadata()?.len() == 0 {
        return Ok(LogFile::new(path, file));
    }
    move_aside(path)?;
    let file = options().create_new(true).open(path)?;
    lock(&file)?;
    Ok(LogFile::new(path, file))
}

/// Puts a new log with `contents` at `path`, in the place of the one that is there or, with
/// `keep_old`, after moving that aside.
pub fn replace(path: &Path, contents: &[u8], keep_old: bool) -> io::Result<LogFile> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let file = home::new_file(
        folder.unwrap_or(Path::new(".")),
        ".topup-log-",
        ".tmp",
        options(),
    )?;
    lock(file.as_file())?;
    let log = LogFile::new(path, file.as_file().try_clone()?).holding(contents)?;
    file.as_file().sync_all()?;
    if keep_old && fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
        move_aside(path)?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(log)
}

/// Renames `path` to `path.1`, or the first number that is free.
fn move_aside(path: &Path) -> io::Result<()> {
    for number in 1.. {
        let mut aside = path.as_os_str().to_os_string();
        aside.push(format!(".{number}"));
        match renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => continue,
            result => return Ok(result?),
        }
    }
    unreachable!("the numbers do not end")
}

fn lock(file: &File) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => io::Error::other("another topup writes its log there"),
        error => error.into(),
    })
}
