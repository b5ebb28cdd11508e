//! What of a worker's phrase log no file holds. Its parent keeps that, so that it outlives
//! the worker.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{PhraseLog, Place, State, file};
use crate::bytes::Bytes;
use crate::worker;

/// Records, as a worker has announced them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unfiled {
    /// Whether they are the whole log; else they follow what the file holds.
    alone: bool,
    records: Bytes,
}

/// An announcement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum News<'a> {
    /// The file holds all.
    Filed,
    /// These are the whole log.
    Alone(&'a [u8]),
    /// These follow.
    More(&'a [u8]),
}

/// The first words of the announcements.
const FILED: &str = "filed";
const ALONE: &str = "alone";
const MORE: &str = "more";

impl News<'_> {
    /// As a line, without its break.
    pub fn line(&self) -> String {
        let (word, records) = match self {
            News::Filed => return FILED.into(),
            News::Alone(records) => (ALONE, records),
            News::More(records) => (MORE, records),
        };
        let records = serde_json::json!(Bytes(records.to_vec()));
        format!("{word} {records}")
    }
}

impl Unfiled {
    /// Takes note of a line; false if it is no such announcement.
    pub fn note(&mut self, line: &[u8]) -> bool {
        let line = line.trim_ascii_end();
        if line == FILED.as_bytes() {
            *self = Unfiled::default();
            return true;
        }
        let records = |word: &str| {
            let records = line.strip_prefix(word.as_bytes())?;
            serde_json::from_slice::<Bytes>(records).ok()
        };
        if let Some(records) = records(ALONE) {
            let alone = true;
            *self = Unfiled { alone, records };
        } else if let Some(Bytes(more)) = records(MORE) {
            self.records.0.extend(more);
        } else {
            return false;
        }
        true
    }

    /// The whole log, whose file in `~/.topup/logs` is `name`; `None` if there is none.
    pub fn whole(&self, name: &Path) -> Option<Vec<u8>> {
        let records = self.records.0.clone();
        if self.alone {
            return Some(records);
        }
        let filed = file::read(name).ok()?;
        Some([filed, records].concat())
    }
}

impl PhraseLog {
    /// Tells a worker's parent what no file holds. `anew` means that it is not what was told
    /// and more.
    pub(super) fn tell(&mut self, anew: bool) {
        let Place::Worker(_) = self.place else {
            return;
        };
        let (alone, records) = match &self.state {
            State::Unwritten { records, .. } => (true, records.as_slice()),
            State::Open(log) => (false, log.pending.as_slice()),
            State::Unavailable(_) => (false, &[][..]),
        };
        let told = std::mem::replace(&mut self.told, (alone, records.len()));
        let anew = anew || told.0 != alone || told.1 > records.len();
        if anew && alone {
            return worker::announce_records(News::Alone(records));
        }
        if anew && told != (false, 0) {
            worker::announce_records(News::Filed);
        }
        let more = &records[if anew { 0 } else { told.1 }..];
        if !more.is_empty() {
            worker::announce_records(News::More(more));
        }
    }
}
