//! What a named session has besides: how its process is brought back after its end.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::local::{TOO_MANY, recovery};
use super::{Frozen, Launcher, Session, Turn, lock};
use crate::bytes::Bytes;
use crate::end::End;
use crate::error::EvaluatorError;
use crate::evaluator::{Evaluator, Stop, Worker};
use crate::job::{Log, Recover};
use crate::signals;
use crate::tools::{Failure, Phase, Printed};

/// Owned by its session.
pub struct Named {
    pub name: String,
    pub launcher: Arc<Launcher>,
    pub frozen: Arc<Frozen>,
    /// The file that every fresh process of the session runs first.
    prewarm: Option<PathBuf>,
    /// A process that has just run it, of which fresh ones are copies.
    template: Option<Arc<Evaluator>>,
    state: Mutex<State>,
}

struct State {
    /// How many phrases of the log are the prewarm's; `None` once the session has begun
    /// afresh without it.
    prewarmed: Option<usize>,
    /// The phrase log that the session is to be brought back from. Its file belongs to the
    /// process that takes the session's place, which may end before it has run all of it.
    to_restore: Option<Bytes>,
    /// Which of the session's processes ended, and when that was found.
    ends: Vec<(i32, Instant)>,
}

impl Named {
    pub fn new(
        name: String,
        launcher: Arc<Launcher>,
        frozen: Arc<Frozen>,
        prewarm: Option<PathBuf>,
        template: Option<Arc<Evaluator>>,
        prewarmed: Option<usize>,
    ) -> Named {
        let state = State {
            prewarmed,
            to_restore: None,
            ends: Vec::new(),
        };
        Named {
            name,
            launcher,
            frozen,
            prewarm,
            template,
            state: Mutex::new(state),
        }
    }

    /// How many phrases of the log are the prewarm's; `None` if the session has begun afresh
    /// without it.
    pub fn prewarmed(&self) -> Option<usize> {
        lock(&self.state).prewarmed
    }

    /// The session begins afresh, without its prewarm.
    pub fn forget_prewarm(&self) {
        lock(&self.state).prewarmed = None;
    }

    /// If the session's process has ended, puts another in its place and runs the phrase log
    /// again there. The next evaluation's notice says how that went.
    pub async fn bring_back(&self, turn: &Turn<'_>) -> Result<(), Failure> {
        let evaluator = turn.session.evaluator();
        let ended = |worker: &Worker| Some((worker.pid(), worker.end()?));
        let Some(ended) = evaluator.worker().and_then(ended) else {
            return Ok(());
        };
        tokio::select! {
            biased;
            _ = turn.stopped() => {
                let text = format!("{}, while the session was brought back", Stop::Cancelled);
                Err(Failure::new(Phase::Crash, text))
            }
            brought = self.replace(turn.session, ended) => brought,
        }
    }

    /// Puts another process in the place of the one that has `ended`, its number and how.
    async fn replace(
        &self,
        session: &Session,
        (mut pid, mut end): (i32, End),
    ) -> Result<(), Failure> {
        let path = self.launcher.log(&self.name);
        let log = self.log_to_restore(session, path.as_deref());
        let mut skip = Vec::new();
        loop {
            let ends = self.count_end(pid);
            let (evaluator, done, not_copied) = self.fresh(path.clone()).await?;
            let words = words(end);
            let recover = Recover {
                log: log.clone(),
                done,
                skip: skip.clone(),
            };
            let notice = if ends >= TOO_MANY {
                lock(&self.state).ends.clear();
                format!(
                    "{words}; that was the {TOO_MANY}rd time within a minute, so the session starts afresh (the old phrase log is kept)"
                )
            } else if log.is_none() {
                format!("{words}; there is no phrase log to restore the session from")
            } else {
                match evaluator.recover(recover, &Notify::new()).await {
                    Ok(recovered) => recovery(&words, done, &skip, &recovered),
                    Err(EvaluatorError::Ended(again)) => {
                        skip.extend(evaluator.replaying());
                        pid = evaluator.worker().map_or(0, Worker::pid);
                        end = again.0;
                        continue;
                    }
                    Err(error) => format!("{words}; the session's state is lost: {error}"),
                }
            };
            session.go_on_with(evaluator);
            self.set_to_restore(None);
            session.notify(notice);
            if let Some(reason) = not_copied {
                session.notify(format!("its prewarm was run again: {reason}"));
            }
            return Ok(());
        }
    }

    /// The log of the process that has ended, or of one before it that none took the place of.
    fn log_to_restore(&self, session: &Session, file: Option<&Path>) -> Option<Bytes> {
        let log = &mut lock(&self.state).to_restore;
        if log.is_none() {
            let evaluator = session.evaluator();
            let unfiled = evaluator.worker()?.conversation().unfiled();
            *log = unfiled.whole(file?).map(Bytes);
        }
        log.clone()
    }

    /// The log that the session is being brought back from.
    pub fn to_restore(&self) -> Option<Bytes> {
        lock(&self.state).to_restore.clone()
    }

    pub fn set_to_restore(&self, log: Option<Bytes>) {
        lock(&self.state).to_restore = log;
    }

    /// Counts the end of a process, which may take several calls to be brought back from, once;
    /// returns how many ends there were in the last minute.
    fn count_end(&self, pid: i32) -> usize {
        let ends = &mut lock(&self.state).ends;
        ends.retain(|(ended, when)| *ended == pid || when.elapsed() < Duration::from_secs(60));
        if !ends.iter().any(|(ended, _)| *ended == pid) {
            ends.push((pid, Instant::now()));
        }
        ends.len()
    }

    /// A fresh process for the session; also returns how many phrases of the old log need
    /// not be run again, and why it is no copy of one that had been prewarmed, if it was to be.
    async fn fresh(
        &self,
        log: Option<PathBuf>,
    ) -> Result<(Evaluator, usize, Option<String>), Failure> {
        let Some(phrases) = lock(&self.state).prewarmed else {
            return Ok((self.launcher.spawn(log).await?, 0, None));
        };
        let mut not_copied = None;
        let template = self.template.as_ref();
        if let Some(template) = template.filter(|template| template.is_alive()) {
            match self.launcher.copy(template, log.clone(), true).await {
                Ok(copy) => return Ok((copy, phrases, None)),
                Err(reason) => not_copied = Some(reason),
            }
        }
        let prewarm = self.prewarm.as_deref();
        let (evaluator, _) = prewarmed(&self.launcher, log, prewarm).await?;
        Ok((evaluator, phrases, not_copied))
    }
}

/// How the session's process ended.
fn words(end: End) -> String {
    match end {
        End::Signal(signal) => {
            format!(
                "the session's process was ended by {}",
                signals::name(signal)
            )
        }
        End::Exit(status) => format!("the session's process ended with status {status}"),
        End::Stuck(_) | End::Stopped | End::Restarted => end.to_string(),
    }
}

/// A fresh process that has run `prewarm`, and how many phrases its log has. It ends if this
/// is dropped.
pub async fn prewarmed(
    launcher: &Launcher,
    log: Option<PathBuf>,
    prewarm: Option<&Path>,
) -> Result<(Evaluator, usize), Failure> {
    let evaluator = launcher.spawn(log).await?;
    let phrases = match prewarm {
        Some(file) => run_first(&evaluator, file).await?,
        None => 0,
    };
    Ok((evaluator, phrases))
}

/// Runs a file in a fresh toplevel; returns the number of phrases in the log then.
async fn run_first(evaluator: &Evaluator, file: &Path) -> Result<usize, Failure> {
    let failed = |text: String| Failure::new(Phase::Prewarm, format!("{}: {text}", file.display()));
    let Some(path) = file.to_str() else {
        return Err(failed("its name is not text".into()));
    };
    let source = format!("#use {path:?}");
    let run = evaluator.eval(source, None, pending()).await;
    let run = run.map_err(|error| {
        let text = error.to_string();
        Failure {
            error: failed(text).error,
            phase: Phase::Prewarm,
            ..Failure::from(error)
        }
    })?;
    if let Some(error) = run.result.outcome.error {
        let stopped = match run.stop {
            Some(stop @ Stop::Timeout(_)) => format!("{stop} (TOPUP_TIMEOUT sets the limit)\n"),
            Some(stop) => format!("{stop}\n"),
            None => String::new(),
        };
        let printed = Printed::new(run.stdout, run.stderr);
        return Err(failed(stopped + &error).beside(printed));
    }
    // Without a log there is nothing to count.
    let log = evaluator.ask(Log {}, pending()).await;
    Ok(log.map_or(0, |(_, phrases)| phrases))
}
