//! The phrase log: the text of each phrase that succeeded, in order. Checkpoints and
//! programs are made from it, and it outlives a process that is killed.
//!
//! A record is the phrase as it was written, ended by `;;` and a new line; the whole is
//! OCaml that `#use` reads. It is written with one call as soon as the phrase has
//! succeeded. The file belongs to one process, which holds a lock on it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::home;

/// Where the log is: what `TOPUP_LOG` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Place {
    /// There is none.
    #[default]
    Off,
    /// A file of this process under `~/.topup/logs/`, made when the first phrase succeeds.
    Private,
    /// A file that the user named. One that is not empty at start is moved aside.
    At(PathBuf),
}

/// The log of one session. Owned by its evaluator.
pub struct PhraseLog {
    place: Place,
    state: State,
    phrases: usize,
    /// The phrases of a replay, which are in the file already.
    replayed: Option<Vec<u8>>,
}

enum State {
    /// Nothing was logged yet.
    Empty,
    Open(LogFile),
    /// Why there is no file.
    Unavailable(String),
}

struct LogFile {
    file: File,
    /// Bytes of whole records in the file.
    length: u64,
    /// Records that could not be written yet.
    pending: Vec<u8>,
}

/// How many private logs are kept; the oldest go, but none that is in use.
const KEPT: usize = 100;

const REMEDY: &str = "checkpoint, restore and compile_to_binary need it: start topup without \
TOPUP_LOG, or with the path of a file that can be written";

impl PhraseLog {
    /// The log at `place`. If it cannot be had, evaluations go on without, and
    /// [`PhraseLog::contents`] says why.
    pub fn open(place: Place) -> PhraseLog {
        let state = match &place {
            Place::Off => {
                State::Unavailable(format!("the phrase log is off (TOPUP_LOG=off); {REMEDY}"))
            }
            Place::Private => State::Empty,
            Place::At(path) => match claim(path) {
                Ok(file) => State::Open(LogFile::new(file)),
                Err(error) => State::Unavailable(format!(
                    "there is no phrase log, because TOPUP_LOG={} cannot be used: {error}; {REMEDY}",
                    path.display()
                )),
            },
        };
        PhraseLog {
            place,
            state,
            phrases: 0,
            replayed: None,
        }
    }

    /// The log at `place` of a process that went on in a new image, with what it held.
    pub fn resume(place: Place, contents: &[u8]) -> PhraseLog {
        let mut log = PhraseLog {
            place,
            state: State::Empty,
            phrases: 0,
            replayed: None,
        };
        if log.place == Place::Off {
            return PhraseLog::open(Place::Off);
        }
        if let Err(reason) = log.begin(contents, false) {
            log.state = State::Unavailable(format!("{reason}; {REMEDY}"));
        }
        log
    }

    /// What is in the log already is about to be run again.
    pub fn begin_recovery(&mut self) {
        self.phrases = 0;
        self.replayed = Some(Vec::new());
    }

    /// Adds a phrase. What cannot be written is kept and tried again with the next one.
    pub fn append(&mut self, phrase: &[u8]) {
        self.phrases += 1;
        if let Some(replayed) = &mut self.replayed {
            return add(replayed, phrase);
        }
        if let State::Empty = self.state {
            self.state = match private() {
                Ok(file) => State::Open(LogFile::new(file)),
                Err(error) => State::Unavailable(format!(
                    "there is no phrase log, because no file can be made in ~/.topup/logs: {error}; {REMEDY}"
                )),
            };
        }
        if let State::Open(log) = &mut self.state {
            add(&mut log.pending, phrase);
            if let Err(error) = log.write() {
                log::warn!("the phrase log: {error}; tried again with the next phrase");
            }
        }
    }

    /// The whole log and its number of phrases. The error says why there is none, and what
    /// to do.
    pub fn contents(&mut self) -> Result<(Vec<u8>, usize), String> {
        let contents = match &mut self.state {
            State::Empty => Ok(Vec::new()),
            State::Open(log) => log
                .contents()
                .map_err(|error| format!("the phrase log: {error}")),
            State::Unavailable(reason) => Err(reason.clone()),
        }?;
        Ok((contents, self.phrases))
    }

    /// Begins a new, empty log, if there is one at all. The old one is left where it is, or
    /// moved aside if the user named its place; on failure it goes on.
    pub fn restart(&mut self) -> Result<(), String> {
        self.begin(&[], true)?;
        self.phrases = 0;
        Ok(())
    }

    /// Begins a new log that holds the source of a checkpoint, which is about to be run.
    pub fn begin_replay(&mut self, source: &[u8]) -> Result<(), String> {
        self.contents()?;
        self.begin(source, true)?;
        self.phrases = 0;
        self.replayed = Some(Vec::new());
        Ok(())
    }

    /// The replay is over; if it was not `complete`, the log holds what succeeded, and with
    /// `keep_old` what it held is kept like any old log. Returns how many phrases did.
    pub fn end_replay(&mut self, complete: bool, keep_old: bool) -> Result<usize, String> {
        let replayed = self.replayed.take().unwrap_or_default();
        if !complete {
            self.begin(&replayed, keep_old)?;
        }
        Ok(self.phrases)
    }

    fn begin(&mut self, contents: &[u8], keep_old: bool) -> Result<(), String> {
        let fresh = match (&self.place, &self.state) {
            (_, State::Unavailable(_)) | (Place::Off, _) => return Ok(()),
            (Place::Private, _) if contents.is_empty() => Ok(State::Empty),
            (Place::Private, _) => private().and_then(|file| LogFile::holding(file, contents)),
            (Place::At(path), _) => replace(path, contents, keep_old),
        };
        self.state = fresh.map_err(|error| format!("beginning a new phrase log: {error}"))?;
        Ok(())
    }
}

fn add(records: &mut Vec<u8>, phrase: &[u8]) {
    records.extend_from_slice(phrase);
    records.push(b'\n');
}

impl LogFile {
    fn new(file: File) -> LogFile {
        LogFile {
            file,
            length: 0,
            pending: Vec::new(),
        }
    }

    fn holding(file: File, contents: &[u8]) -> io::Result<State> {
        let mut log = LogFile::new(file);
        log.pending.extend_from_slice(contents);
        log.write()?;
        Ok(State::Open(log))
    }

    /// Writes what is pending, all of it or nothing.
    fn write(&mut self) -> io::Result<()> {
        if let Err(error) = (&self.file).write_all(&self.pending) {
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn contents(&self) -> io::Result<Vec<u8>> {
        let mut contents = vec![0; self.length as usize];
        self.file.read_exact_at(&mut contents, 0)?;
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
fn private() -> io::Result<File> {
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
    Ok(file)
}

/// An empty, locked file at `path`. What is there already is moved aside.
fn claim(path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return Err(io::Error::other("it is not a regular file"));
        }
        _ => {}
    }
    let file = options().create(true).open(path)?;
    lock(&file)?;
    if file.metadata()?.len() == 0 {
        return Ok(file);
    }
    move_aside(path)?;
    let file = options().create_new(true).open(path)?;
    lock(&file)?;
    Ok(file)
}

/// Puts a new log with `contents` at `path`, in the place of the one that is there or, with
/// `keep_old`, after moving that aside.
fn replace(path: &Path, contents: &[u8], keep_old: bool) -> io::Result<State> {
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
    let state = LogFile::holding(file.as_file().try_clone()?, contents)?;
    file.as_file().sync_all()?;
    if keep_old && fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
        move_aside(path)?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(state)
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
