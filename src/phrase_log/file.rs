//! The file of a phrase log, which belongs to one process: that holds a lock on it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

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
        self.extend()?;
        Ok(self)
    }

    /// Writes what is pending, all of it or nothing. Where others have taken the file away,
    /// or written to it, a new one with all records is put in its place; that is said.
    pub fn write(&mut self) -> io::Result<Option<String>> {
        let length = self.file.metadata()?.len();
        if length < self.length {
            return Err(cut_short());
        }
        if length > self.length || !self.is_in_place()? {
            return self.write_anew().map(Some);
        }
        self.extend()?;
        Ok(None)
    }

    fn extend(&mut self) -> io::Result<()> {
        if let Err(error) = (&self.file).write_all(&self.pending) {
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        let there = fs::metadata(&self.path);
        Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
    }

    fn write_anew(&mut self) -> io::Result<String> {
        if let Some(folder) = self.path.parent() {
            home::make(folder)?;
        }
        match File::open(&self.path) {
            // It may be another topup's by now.
            Ok(theirs) if !self.is_in_place()? => lock(&theirs)?,
            _ => {}
        }
        *self = replace(&self.path, &self.contents()?, true)?;
        Ok(format!(
            "the phrase log {} was changed or removed by another program; it was written anew and \
             holds every phrase of the session",
            self.path.display()
        ))
    }

    pub fn contents(&self) -> io::Result<Vec<u8>> {
        let mut contents = vec![0; self.length as usize];
        let read = self.file.read_exact_at(&mut contents, 0);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => cut_short(),
            _ => error,
        })?;
        contents.extend_from_slice(&self.pending);
        Ok(contents)
    }
}

fn cut_short() -> io::Error {
    io::Error::other("another program has cut it short")
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// `~/.topup/logs`, with room for one more.
pub fn folder() -> io::Result<PathBuf> {
    let folder = home::folder("logs")?;
    home::prune(&folder, KEPT, is_of_a_live_server);
    Ok(folder)
}

/// What the file `name` in `~/.topup/logs` holds.
pub fn read(name: &Path) -> io::Result<Vec<u8>> {
    fs::read(home::home()?.join(".topup/logs").join(name))
}

/// A named session's log is wanted after its process has ended, as long as the server lives
/// whose number begins its name.
fn is_of_a_live_server(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let number = name
        .strip_suffix(".ml")
        .and_then(|name| name.split_once('-'));
    number.is_some_and(|(process, _)| Path::new("/proc").join(process).exists())
}

/// A private file with `contents`, locked.
pub fn private(contents: &[u8]) -> io::Result<LogFile> {
    let folder = folder()?;
    let prefix = format!("{}-", std::process::id());
    let file = home::new_file(&folder, &prefix, ".ml", options())?;
    lock(file.as_file())?;
    let log = LogFile::new(file.path(), file.as_file().try_clone()?).holding(contents)?;
    file.keep()?;
    log::info!("the phrase log is {}", log.path.display());
    Ok(log)
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
    home::move_aside(path)?;
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
        home::move_aside(path)?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(log)
}

fn lock(file: &File) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => io::Error::other("another topup writes its log there"),
        error => error.into(),
    })
}
