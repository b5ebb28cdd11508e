//! The session after the process has come to its end: the phrase log, run again.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{self, MissedTickBehavior};

use super::supervise::{REPEAT, STRONGER};
use super::{Evaluator, Stop};
use crate::bridge;
use crate::error::EvaluatorError;
use crate::outcome::Recovered;

/// What a phrase may take when the log is run again.
const REPLAYED_PHRASE: Duration = Duration::from_secs(60);
/// The same, in looks at it; time in which the whole process stands still does not count.
const LOOKS: u32 = (REPLAYED_PHRASE.as_millis() / REPEAT.as_millis()) as u32;

impl Evaluator {
    /// Runs the phrases of the log again, in a fresh process. One that takes too long is
    /// interrupted, and then is one of those that failed.
    pub async fn recover(&self, skip: Vec<usize>) -> Result<Recovered, EvaluatorError> {
        self.skip(skip.clone());
        let recovered = self.replay_log(skip).await;
        self.skip(Vec::new());
        recovered
    }

    fn skip(&self, skip: Vec<usize>) {
        *self.skipped.lock().unwrap_or_else(PoisonError::into_inner) = skip;
    }

    async fn replay_log(&self, skip: Vec<usize>) -> Result<Recovered, EvaluatorError> {
        let work = self.run(None, std::future::pending(), move |thread, runtime| {
            thread.recover(runtime, &skip)
        });
        tokio::pin!(work);
        let mut ticks = time::interval(REPEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut at, mut looks) = (None, 0);
        loop {
            tokio::select! {
                biased;
                run = &mut work => return Ok(run?.result),
                _ = ticks.tick() => {}
            }
            let now = bridge::replaying();
            looks = if now == at { looks + 1 } else { 0 };
            at = now;
            if looks > LOOKS + STRONGER {
                self.stuck(Stop::Timeout(REPLAYED_PHRASE));
                looks = 0;
            } else if looks > LOOKS {
                self.interrupt.send();
            }
        }
    }

    /// Phrases of the log that are not to be run again, because the process came to its end
    /// in them: those that were left out before, and the one that a replay is at.
    pub fn skipped(&self) -> Vec<usize> {
        let mut skipped = self
            .skipped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        skipped.extend(bridge::replaying());
        skipped
    }
}
