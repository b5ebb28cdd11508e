//! The phrase log: the text of each phrase that succeeded, in order. Checkpoints and
//! programs are made from it, and it outlives a process that is killed.
//!
//! A record is the phrase as it was written, ended by `;;` and a new line; the whole is
//! OCaml that `#use` reads. It is written with one call as soon as the phrase has
//! succeeded. The file belongs to one process, which holds a lock on it.

mod file;

use std::borrow::Cow;
use std::path::PathBuf;

use file::{LogFile, claim, private, replace};

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
            Place::Private => State::Empty,
            Place::At(path) => match claim(path) {
                Ok(file) => State::Open(file),
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

    /// What is in the log is about to be run again: returns it. With `contents` that takes
    /// the place of what is there, whose phrases have been run already.
    pub fn begin_recovery(&mut self, contents: Option<Vec<u8>>) -> Result<Vec<u8>, String> {
        let Some(contents) = contents else {
            let (source, _) = self.contents()?;
            self.phrases = 0;
            self.replayed = Some(Vec::new());
            return Ok(source);
        };
        let (done, _) = self.contents()?;
        self.begin(&contents, false)?;
        self.replayed = Some(done);
        Ok(contents)
    }

    /// Goes on in a file of its own at `path`, with what it holds: another process has the
    /// old one. What is at `path` is moved aside.
    pub fn part(&mut self, path: PathBuf) {
        let parted = self.contents().and_then(|(contents, _)| {
            self.place = Place::At(path);
            self.begin(&contents, true)
        });
        if let Err(reason) = parted {
            self.state = State::Unavailable(format!("{reason}; {REMEDY}"));
        }
    }

    /// Adds a phrase. What cannot be written is kept and tried again with the next one.
    pub fn append(&mut self, phrase: &[u8]) {
        self.phrases += 1;
        if let Some(replayed) = &mut self.replayed {
            return add(replayed, phrase);
        }
        if let State::Empty = self.state {
            self.state = match private() {
                Ok(file) => State::Open(file),
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

    /// Why the log that the user asked for cannot be had.
    pub fn unusable(&self) -> Option<String> {
        match &self.state {
            State::Unavailable(reason) if self.place != Place::Off => Some(reason.clone()),
            _ => None,
        }
    }

    /// The whole log and its number of phrases. The error says why there is none, and what
    /// to do.
    pub fn contents(&mut self) -> Result<(Vec<u8>, usize), String> {
        let contents = match &mut self.state {
            State::Empty => Ok(Vec::new()),
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

    /// Begins a new log that holds the source of a checkpoint, which is about to be run.
    pub fn begin_replay(&mut self, source: &[u8]) -> Result<(), String> {
        if let State::Unavailable(reason) = &self.state {
            return Err(reason.clone());
        }
        self.begin(&ended(source), true)?;
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
            (Place::Private, _) => private()
                .and_then(|log| log.holding(contents))
                .map(State::Open),
            (Place::At(path), _) => replace(path, contents, keep_old).map(State::Open),
        };
        self.state = fresh.map_err(|error| format!("beginning a new phrase log: {error}"))?;
        Ok(())
    }
}

/// A source that is followed by a record: its last phrase may lack its end.
fn ended(source: &[u8]) -> Cow<'_, [u8]> {
    if source.is_empty() || source.ends_with(b";;\n") {
        return Cow::Borrowed(source);
    }
    Cow::Owned([source, b"\n;;\n"].concat())
}

fn add(records: &mut Vec<u8>, phrase: &[u8]) {
    records.extend_from_slice(phrase);
    records.push(b'\n');
}
