//! Instant checkpoints: copies of the processes of named sessions as they were when they
//! were checkpointed, which do nothing but wait to be copied again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::left::leave;
use super::{Launcher, Turn, lock};
use crate::bytes::Bytes;
use crate::evaluator::{Evaluator, Stop, WorkerLeft};
use crate::tools::{Failure, Phase};

/// The latest ones; shared by all named sessions of a server.
#[derive(Default)]
pub struct Frozen(Mutex<Vec<Checkpoint>>);

/// How many are kept; the oldest go.
const KEPT: usize = 8;

struct Checkpoint {
    path: PathBuf,
    /// What the file held then.
    source: Vec<u8>,
    phrases: usize,
    evaluator: Arc<Evaluator>,
}

impl Frozen {
    fn keep(&self, checkpoint: Checkpoint) {
        let mut checkpoints = lock(&self.0);
        checkpoints.retain(|kept| kept.path != checkpoint.path);
        let excess = (checkpoints.len() + 1).saturating_sub(KEPT);
        checkpoints.drain(..excess);
        checkpoints.push(checkpoint);
    }

    /// The process of a checkpoint whose file has not changed, and its number of phrases.
    fn find(&self, path: &Path, source: &[u8]) -> Option<(Arc<Evaluator>, usize)> {
        let checkpoints = lock(&self.0);
        let found = checkpoints
            .iter()
            .find(|kept| kept.path == path && kept.source == source && kept.evaluator.is_alive())?;
        Some((Arc::clone(&found.evaluator), found.phrases))
    }
}

/// A checkpoint, from one image of the server's process to the next.
#[derive(Debug, Serialize, Deserialize)]
pub struct FrozenLeft {
    path: PathBuf,
    source: Bytes,
    phrases: usize,
    worker: WorkerLeft,
}

impl Frozen {
    pub fn leave(&self) -> io::Result<Vec<FrozenLeft>> {
        let mut left = Vec::new();
        for checkpoint in lock(&self.0).iter() {
            left.push(FrozenLeft {
                path: checkpoint.path.clone(),
                source: Bytes(checkpoint.source.clone()),
                phrases: checkpoint.phrases,
                worker: leave(&checkpoint.evaluator)?,
            });
        }
        Ok(left)
    }

    pub fn resume(&self, left: Vec<FrozenLeft>, launcher: &Launcher) -> io::Result<()> {
        for checkpoint in left {
            self.keep(Checkpoint {
                path: checkpoint.path,
                source: checkpoint.source.0,
                phrases: checkpoint.phrases,
                evaluator: Arc::new(launcher.resume(checkpoint.worker)?),
            });
        }
        Ok(())
    }
}

/// What became of a restore from a process.
pub enum Thawed {
    /// It went back to there, after so many phrases.
    Back(usize),
    /// There is no process of that checkpoint.
    Nowhere,
    /// There was one, which could not be copied: why.
    Failed(String),
}

impl Turn<'_> {
    /// Keeps a copy of a named session's process for the checkpoint at `path`, or says why
    /// not; for the local one there is none.
    pub async fn freeze(
        &self,
        path: PathBuf,
        source: Vec<u8>,
        phrases: usize,
    ) -> Result<(), String> {
        let Some(named) = &self.session.named else {
            return Ok(());
        };
        // One that does not answer is not ended: it holds what is not in the log.
        let evaluator = self.session.evaluator();
        let evaluator = tokio::select! {
            biased;
            _ = self.stopped() => return Err("it was cancelled".into()),
            copy = named.launcher.copy(&evaluator, None, false) => copy?,
        };
        named.frozen.keep(Checkpoint {
            path,
            source,
            phrases,
            evaluator: Arc::new(evaluator),
        });
        Ok(())
    }

    /// Puts a copy of the checkpoint's process in the place of a named session's, if there is
    /// one and its file still holds `source`.
    pub async fn thaw(&self, path: &Path, source: &[u8]) -> Result<Thawed, Failure> {
        let Some(named) = &self.session.named else {
            return Ok(Thawed::Nowhere);
        };
        let Some((evaluator, phrases)) = named.frozen.find(path, source) else {
            return Ok(Thawed::Nowhere);
        };
        let log = named.launcher.log(&named.name);
        let copied = tokio::select! {
            biased;
            _ = self.stopped() => {
                let text = format!("{}; the session is as it was", Stop::Cancelled);
                return Err(Failure::new(Phase::Route, text));
            }
            copied = named.launcher.copy(&evaluator, log, true) => copied,
        };
        Ok(match copied {
            Ok(copy) => {
                named.forget_prewarm();
                self.session.go_on_with(copy);
                Thawed::Back(phrases)
            }
            Err(reason) => Thawed::Failed(reason),
        })
    }
}
