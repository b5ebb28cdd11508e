//! A log whose phrases are run again: after a crash, from a checkpoint, in a copy of the
//! process.

use std::borrow::Cow;
use std::path::PathBuf;

use super::{PhraseLog, Place, REMEDY, State};

impl PhraseLog {
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
        self.begin_somehow(&contents, false);
        self.replayed = Some(done);
        Ok(contents)
    }

    /// Keeps what it holds in memory alone: the file, and the lock on it, belong to the process
    /// that this one is a copy of.
    pub fn detach(&mut self) {
        if let Ok((records, _)) = self.contents() {
            let keep_old = false;
            self.state = State::Unwritten { records, keep_old };
        }
    }

    /// Goes on in a file of its own, a worker's of that `name`, with what it holds: another
    /// process has the old one. What is there is moved aside.
    pub fn part(&mut self, name: PathBuf) {
        match self.contents() {
            Ok((contents, _)) => {
                self.place = Place::Worker(name);
                self.begin_somehow(&contents, true);
            }
            Err(reason) => self.state = State::Unavailable(format!("{reason}; {REMEDY}")),
        }
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
    pub fn end_replay(&mut self, complete: bool, keep_old: bool) -> usize {
        let replayed = self.replayed.take().unwrap_or_default();
        if !complete {
            self.begin_somehow(&replayed, keep_old);
        }
        self.phrases
    }
}

/// A source that is followed by a record: its last phrase may lack its end.
fn ended(source: &[u8]) -> Cow<'_, [u8]> {
    if source.is_empty() || source.ends_with(b";;\n") {
        return Cow::Borrowed(source);
    }
    Cow::Owned([source, b"\n;;\n"].concat())
}
