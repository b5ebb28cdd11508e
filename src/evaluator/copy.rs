//! Copies of workers, and what else a worker should answer soon.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::Pid;
use serde::de::DeserializeOwned;
use tokio::sync::{MutexGuard, oneshot};
use tokio::time::{self, MissedTickBehavior};

use super::conversation::Outstanding;
use super::patience::Patience;
use super::soon::Reply;
use super::supervise::REPEAT;
use super::worker::answer;
use super::{Worker, ended};
use crate::capture::Meter;
use crate::error::EvaluatorError;
use crate::memory;
use crate::session::Line;

/// What each half of a copy may take.
const COPY: Duration = Duration::from_secs(5);

impl Worker {
    /// Waits until nobody else makes a copy of the worker: from the first half to the second
    /// it can do nothing else.
    pub async fn alone(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().await
    }

    /// Has the worker make a copy of itself, which serves the other end of the returned
    /// socket. It is still the child of a process between the two: see [`Worker::part`].
    pub async fn fork(&self, end_if_late: bool) -> Result<(Pid, OwnedFd, Meter), EvaluatorError> {
        let failed = |error: io::Error| EvaluatorError::Fault(error.to_string());
        let (socket, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        let (meter, [stdout, stderr]) = Meter::start().map_err(failed)?;
        let descriptors = vec![theirs.into(), stdout.into(), stderr.into()];
        let pid: i32 = self.soon("fork\n", descriptors, end_if_late).await?;
        let pid = Pid::from_raw(pid).ok_or_else(ended)?;
        Ok((pid, socket.into(), meter))
    }

    /// The process between the worker and its latest copy goes, which leaves the copy to the
    /// nearest reaper of orphans. It is to join next.
    pub async fn part(&self, end_if_late: bool) -> Result<(), EvaluatorError> {
        self.soon("part\n", Vec::new(), end_if_late).await
    }

    /// Has the worker do what is part of a copy, and should be done in no time.
    async fn soon<T: DeserializeOwned + Send + 'static>(
        &self,
        line: &str,
        descriptors: Vec<OwnedFd>,
        end_if_late: bool,
    ) -> Result<T, EvaluatorError> {
        let read = |reply: Line| answer(&reply);
        let mut reply = self.request(line.into(), descriptors, Outstanding::Copy, read)?;
        let Some(reply) = self.within(COPY, &mut reply).await else {
            let mut reason = format!("the process did not answer within {} s", COPY.as_secs());
            if end_if_late {
                self.give_up();
                self.gone().await;
                reason += " and was ended";
            }
            return Err(EvaluatorError::Fault(reason));
        };
        reply.map_err(|_| ended())?
    }

    /// The worker's reply; `None` if it takes longer than `time` in which it could run.
    pub async fn within<T>(
        &self,
        time: Duration,
        reply: &mut oneshot::Receiver<T>,
    ) -> Option<Reply<T>> {
        let mut patience = Patience::of(time);
        let mut ticks = time::interval(REPEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                reply = &mut *reply => return Some(reply),
                _ = ticks.tick() => {}
            }
            let resident = || memory::resident(self.pid().unsigned_abs());
            if patience.is_over(Some(self.thread()), resident) {
                return None;
            }
        }
    }
}
