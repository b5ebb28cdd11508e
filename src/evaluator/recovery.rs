//! The session after its process has come to its end: the phrase log, run again.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{self, MissedTickBehavior};

use super::patience::STRONGER;
use super::supervise::REPEAT;
use super::{Evaluator, Stop, Toplevel};
use crate::bridge;
use crate::error::EvaluatorError;
use crate::job::Recover;
use crate::outcome::Recovered;

/// What a phrase may take when the log is run again.
const REPLAYED_PHRASE: Duration = Duration::from_secs(60);
/// The same, in looks at it; time in which the whole process stands still does not count.
const LOOKS: u32 = looks(REPLAYED_PHRASE);

const fn looks(time: Duration) -> u32 {
    (time.as_millis() / REPEAT.as_millis()) as u32
}

impl Evaluator {
    /// Runs the phrases of the log again, in a fresh process. One that takes too long, or is at
    /// hand when `give_up` is notified, is interrupted, and then is one of those that failed.
    pub async fn recover(
        &self,
        job: Recover,
        give_up: &Notify,
    ) -> Result<Recovered, EvaluatorError> {
        let skip = job.skip.clone();
        if let Toplevel::Thread(thread) = &self.toplevel {
            thread.skip(skip);
        }
        let recovered = self.replay_log(job, give_up).await;
        if let Toplevel::Thread(thread) = &self.toplevel {
            thread.skip(Vec::new());
        }
        recovered
    }

    async fn replay_log(
        &self,
        job: Recover,
        give_up: &Notify,
    ) -> Result<Recovered, EvaluatorError> {
        let work = self.run(job, None, std::future::pending());
        tokio::pin!(work);
        let mut ticks = time::interval(REPEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut at, mut looks) = (None, 0);
        loop {
            tokio::select! {
                biased;
                run = &mut work => return Ok(run?.result),
                _ = give_up.notified() => {
                    at = self.replaying();
                    looks = looks.max(LOOKS);
                }
                _ = ticks.tick() => {}
            }
            let now = self.replaying();
            looks = if now == at { looks + 1 } else { 0 };
            at = now;
            if looks > LOOKS + self::looks(STRONGER) {
                self.stuck(Stop::Timeout(REPLAYED_PHRASE));
                looks = 0;
            } else if looks > LOOKS {
                self.interrupt();
            }
        }
    }

    /// The number of the phrase that a replay is at, or was at when the process came to its
    /// end.
    pub fn replaying(&self) -> Option<usize> {
        match &self.toplevel {
            Toplevel::Thread(_) => bridge::replaying(),
            Toplevel::Worker(worker) => worker.replaying(),
        }
    }

    /// Phrases of the log that are not to be run again, because the process came to its end
    /// in them: those that were left out before, and the one that a replay is at.
    pub fn skipped(&self) -> Vec<usize> {
        let mut skipped = match &self.toplevel {
            Toplevel::Thread(thread) => thread.skipped(),
            Toplevel::Worker(_) => Vec::new(),
        };
        skipped.extend(self.replaying());
        skipped
    }
}
