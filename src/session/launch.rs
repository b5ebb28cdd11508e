//! Starts worker processes: fresh ones, and copies of others.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::{Pid, getpid};

use crate::capture::Meter;
use crate::error::EvaluatorError;
use crate::evaluator::{Evaluator, Worker, WorkerLeft};
use crate::orphans::Inheritance;
use crate::phrase_log::Place;
use crate::reexec::Beginning;
use crate::settings::Settings;
use crate::worker::{self, Join};

/// How this server starts workers.
pub struct Launcher {
    beginning: Beginning,
    settings: Settings,
    /// One copy parts from its original at a time: the server is the reaper of orphans for
    /// that long.
    copying: tokio::sync::Mutex<()>,
}

impl Launcher {
    pub fn new(beginning: Beginning, settings: Settings) -> Launcher {
        Launcher {
            beginning,
            settings,
            copying: Default::default(),
        }
    }

    /// Starts a fresh process of this program. `log` is the file of its phrase log.
    pub async fn spawn(&self, log: Option<PathBuf>) -> Result<Evaluator, EvaluatorError> {
        let failed =
            |error: io::Error| EvaluatorError::Fault(format!("starting a worker: {error}"));
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let (meter, [stdout, stderr]) = Meter::start().map_err(failed)?;
        let mut command = self.beginning.program();
        command
            .arg(worker::ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout)
            .stderr(stderr)
            // A Ctrl-C at our terminal is not meant for it.
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        // It has the worker's end of the socket, which is to close when the worker ends.
        drop(command);
        let pid = Pid::from_raw(child.id() as i32)
            .ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let worker = Worker::join(socket.into(), meter, &self.join(log), pid).await?;
        Ok(Evaluator::of_worker(worker, self.settings.clone()))
    }

    /// Makes a copy of a worker that does nothing else meanwhile, or says why there is none.
    /// It keeps its own phrase log at `log`; without that it never adds to what it was copied
    /// with. An original that does not answer in time is ended if it `may_end`.
    pub async fn copy(
        self: &Arc<Self>,
        original: &Arc<Evaluator>,
        log: Option<PathBuf>,
        may_end: bool,
    ) -> Result<Evaluator, String> {
        let (launcher, original) = (Arc::clone(self), Arc::clone(original));
        // To its end, also when the caller is cancelled: nobody else would wait for the copy.
        let copied = tokio::spawn(async move { launcher.copy_now(&original, log, may_end).await });
        copied
            .await
            .map_err(|error| error.to_string())?
            .map_err(why)
    }

    async fn copy_now(
        &self,
        original: &Evaluator,
        log: Option<PathBuf>,
        may_end: bool,
    ) -> Result<Evaluator, EvaluatorError> {
        let Some(original) = original.worker() else {
            return Err(EvaluatorError::Fault("it is not a worker".into()));
        };
        let alone = original.alone().await;
        let (pid, socket, meter) = original.fork(may_end).await?;
        {
            let _one = self.copying.lock().await;
            let mut inheritance =
                Inheritance::begin().map_err(|error| EvaluatorError::Fault(error.to_string()))?;
            original.part(may_end).await?;
            inheritance.is_ours(pid);
        }
        drop(alone);
        let worker = Worker::join(socket, meter, &self.join(log), pid).await?;
        Ok(Evaluator::of_worker(worker, self.settings.clone()))
    }

    /// The toplevel of a worker that the image of this process before this one left.
    pub fn resume(&self, left: WorkerLeft) -> io::Result<Evaluator> {
        let worker = Worker::resume(left)?;
        Ok(Evaluator::of_worker(worker, self.settings.clone()))
    }

    fn join(&self, log: Option<PathBuf>) -> Join {
        let server = getpid().as_raw_nonzero().get();
        Join { server, log }
    }

    /// The file of the phrase log of the session `name`, in `~/.topup/logs`; `None` if there is
    /// to be none.
    pub fn log(&self, name: &str) -> Option<PathBuf> {
        if self.settings.phrase_log == Place::Off {
            return None;
        }
        Some(format!("{}-{name}.ml", std::process::id()).into())
    }
}

fn why(error: EvaluatorError) -> String {
    match error {
        EvaluatorError::Fault(reason) => reason,
        error => error.to_string(),
    }
}
