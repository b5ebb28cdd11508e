//! The phrase log: the text of each phrase that succeeded, in order. Checkpoints and
//! programs are made from it, and it outlives a process that is killed.
//!
//! A record is the phrase as it was written, ended by `;;` and a new line; the whole is
//! OCaml that `#use` reads. It is written with one call as soon as the phrase has
//! succeeded. The file belongs to one process, which holds a lock on it.

mod file;
mod replay;
mod unfiled;

use std::io;
use std::path::PathBuf;

use file::{LogFile, claim, private, replace};
pub use unfiled::{News, Unfiled};

/// Where the log is: what `TOPUP_LOG` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Place {
    /// There is none.
    #[default]
    Off,
    /// A file of this process under `~/.topup/logs/`, made when the first phrase succeeds.
    Private,
    /// The file of this name under `~/.topup/logs/`, of a worker. Its parent keeps what cannot
    /// be written.
    Worker(PathBuf),
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
    /// What the caller of the evaluation that is on must know.
    trouble: Option<String>,
    /// What a worker's parent knows to be in no file: whether it is the whole log, and its
    /// length.
    told: (bool, usize),
}

enum State {
    /// No file holds these records: none was needed yet, or none can be had at present.
    Unwritten {
        records: Vec<u8>,
        /// Whether what is in their place is moved aside, when they get there.
        keep_old: bool,
    },
    Open(LogFile),
    /// Why there is no log.
    Unavailable(String),
}

impl State {
    fn empty() -> State {
        State::Unwritten {
            records: Vec::new(),
            keep_old: false,
        }
    }
}

const REMEDY: &str = "checkpoint, restore and compile_to_binary need it: start topup without \
TOPUP_LOG, or with the path of a file that can be written";

impl PhraseLog {
    /// The log at `place`. If it cannot be had, evaluations go on without, and
    /// [`PhraseLog::contents`] says why.
    pub fn open(place: Place) -> PhraseLog {
        let place = match place {
            // What is there may be a link, which is to stay one.
            Place::At(path) => Place::At(path.canonicalize().unwrap_or(path)),
            place => place,
        };
        let state = match &place {
            Place::Off => {
                State::Unavailable(format!("the phrase log is off (TOPUP_LOG=off); {REMEDY}"))
            }
            Place::Private => State::empty(),
            Place::Worker(name) => {
                match file::folder().and_then(|folder| claim(&folder.join(name))) {
                    Ok(file) => State::Open(file),
                    Err(_) => State::empty(),
                }
            }
            Place::At(path) => match claim(path) {
                Ok(file) => State::Open(file),
                Err(error) => State::Unavailable(format!(
                    "there is no phrase log, because TOPUP_LOG={} cannot be used: {error}; {REMEDY}",
                    path.display()
                )),
            },
        };
        let mut log = PhraseLog::new(place, state);
        log.tell(true);
        log
    }

    fn new(place: Place, state: State) -> PhraseLog {
        PhraseLog {
            place,
            state,
            phrases: 0,
            replayed: None,
            trouble: None,
            told: (false, 0),
        }
    }

    /// The log at `place` of a process that went on in a new image: what it held, or why
    /// there was none.
    pub fn resume(place: Place, contents: Result<&[u8], &str>) -> PhraseLog {
        match (place, contents) {
            (Place::Off, _) => PhraseLog::open(Place::Off),
            // What is in that place belongs to others.
            (place, Err(reason)) => PhraseLog::new(place, State::Unavailable(reason.into())),
            (place, Ok(contents)) => {
                let mut log = PhraseLog::new(place, State::empty());
                log.begin_somehow(contents, false);
                log
            }
        }
    }

    /// Adds a phrase. What cannot be written is kept and tried again with the next one.
    pub fn append(&mut self, phrase: &[u8]) {
        self.phrases += 1;
        if let Some(replayed) = &mut self.replayed {
            return add(replayed, phrase);
        }
        match &mut self.state {
            State::Unwritten { records, .. } => add(records, phrase),
            State::Open(log) => add(&mut log.pending, phrase),
            State::Unavailable(_) => return,
        }
        self.trouble = self
            .write()
            .unwrap_or_else(|error| Some(self.unwritten(&error)));
        if let Some(trouble) = &self.trouble {
            log::warn!("{trouble}");
        }
        self.tell(false);
    }

    /// Writes what is not written; returns what is to be said of it.
    fn write(&mut self) -> io::Result<Option<String>> {
        match &mut self.state {
            State::Unwritten { records, keep_old } => {
                let log = fresh(&self.place, records, *keep_old)?;
                self.state = State::Open(log);
                Ok(None)
            }
            State::Open(log) => log.write(),
            State::Unavailable(_) => Ok(None),
        }
    }

    fn unwritten(&self, error: &io::Error) -> String {
        let killed = match self.place {
            Place::Worker(_) => "the server",
            _ => "a process",
        };
        format!(
            "not in the phrase log yet: {}: {error}; the phrase is kept in memory and written with \
             the next one if that can be: a checkpoint has it, {killed} that is killed loses it",
            self.whereabouts()
        )
    }

    fn whereabouts(&self) -> String {
        match (&self.state, &self.place) {
            (State::Open(log), _) => log.path.display().to_string(),
            (_, Place::At(path)) => path.display().to_string(),
            _ => "a file in ~/.topup/logs".into(),
        }
    }

    /// The file that holds it, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.state {
            State::Open(log) => Some(log.path.clone()),
            _ => None,
        }
    }

    /// What the caller of the last evaluation must know; once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Why there is no log, if there is none.
    pub fn unavailable(&self) -> Option<String> {
        match &self.state {
            State::Unavailable(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Why the log that the user asked for cannot be had.
    pub fn unusable(&self) -> Option<String> {
        self.unavailable().filter(|_| self.place != Place::Off)
    }

    /// The whole log and its number of phrases. The error says why there is none, and what
    /// to do.
    pub fn contents(&self) -> Result<(Vec<u8>, usize), String> {
        let contents = match &self.state {
            State::Unwritten { records, .. } => Ok(records.clone()),
            State::Open(log) => log.contents().map_err(|error| {
                format!(
                    "{}: {error}; reset or restore begin a new log",
                    log.path.display()
                )
            }),
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

    fn begin(&mut self, contents: &[u8], keep_old: bool) -> Result<(), String> {
        if let State::Unavailable(_) = self.state {
            return Ok(());
        }
        self.state = match &self.place {
            Place::Off => return Ok(()),
            Place::Private if contents.is_empty() => State::empty(),
            Place::Worker(_) => match fresh(&self.place, contents, keep_old) {
                Ok(log) => State::Open(log),
                Err(_) => State::Unwritten {
                    records: contents.to_vec(),
                    keep_old,
                },
            },
            place => {
                let begun = fresh(place, contents, keep_old);
                let log = begun.map_err(|error| {
                    let old = match &self.state {
                        State::Open(log) => log.path.display().to_string(),
                        _ => self.whereabouts(),
                    };
                    format!(
                        "beginning a new phrase log in the place of {old}: {error}; nothing was \
                         changed: make room or see what is in its way, and try again"
                    )
                })?;
                State::Open(log)
            }
        };
        self.tell(true);
        Ok(())
    }

    /// Begins a log of a session that is there already: if no file holds it, memory does.
    fn begin_somehow(&mut self, contents: &[u8], keep_old: bool) {
        if self.begin(contents, keep_old).is_err() {
            self.state = State::Unwritten {
                records: contents.to_vec(),
                keep_old,
            };
        }
    }
}

fn fresh(place: &Place, contents: &[u8], keep_old: bool) -> io::Result<LogFile> {
    match place {
        Place::At(path) => replace(path, contents, keep_old),
        Place::Worker(name) => replace(&file::folder()?.join(name), contents, keep_old),
        _ => private(contents),
    }
}

fn add(records: &mut Vec<u8>, phrase: &[u8]) {
    records.extend_from_slice(phrase);
    records.push(b'\n');
}
