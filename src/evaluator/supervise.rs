//! The watch over an evaluation: its deadline, its limits, and the interrupts that stop it.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{self, MissedTickBehavior};

use super::patience::{Patience, STRONGER};
use super::soon::{Reply, SOON};
use super::{Evaluator, Stop};
use crate::capture::Meter;
use crate::settings::Settings;

/// What an evaluation may take in a session that is above its limit of memory already.
const GROWTH: u64 = 64 << 20;
/// How often a running evaluation's output and memory are measured.
const MEASURE: Duration = Duration::from_millis(10);
/// How often the interrupt is repeated until the evaluation ends.
pub(super) const REPEAT: Duration = Duration::from_millis(50);

impl Evaluator {
    /// The limit that the evaluation has passed, which began with so much `written` and
    /// `resident`.
    fn excess(&self, written: u64, resident: u64) -> Option<Stop> {
        let Settings {
            output_max,
            memory_max,
            ..
        } = self.settings;
        let most = output_max.min(self.meter.as_ref().map_or(u64::MAX, Meter::most));
        if self.written().saturating_sub(written) > most {
            return Some(Stop::Output(most));
        }
        let now = self.resident();
        let grown = now > memory_max && now > resident + GROWTH;
        grown.then_some(Stop::Memory(memory_max))
    }

    /// Waits for the evaluation to end, and asks it to stop when there is a reason.
    pub(super) async fn supervise<T>(
        &self,
        mut finished: oneshot::Receiver<T>,
        limit: Option<Duration>,
        written: u64,
        cancel: impl Future<Output = ()>,
    ) -> (Reply<T>, Option<Stop>) {
        let mut stop = None;
        let mut patience = Patience::of(STRONGER);
        let resident = self.resident();
        tokio::pin!(cancel);
        let deadline = time::sleep(limit.unwrap_or(Duration::MAX).saturating_sub(SOON));
        tokio::pin!(deadline);
        let mut measure = time::interval_at(time::Instant::now() + MEASURE, MEASURE);
        let mut repeat = time::interval(REPEAT);
        for ticks in [&mut measure, &mut repeat] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            let reason = tokio::select! {
                biased;
                result = &mut finished => return (result, stop),
                _ = repeat.tick(), if stop.is_some() => {
                    self.interrupt();
                    if patience.is_over(self.thread(), || self.resident()) {
                        self.stuck(stop.unwrap_or(Stop::Cancelled));
                    }
                    continue;
                }
                _ = &mut deadline, if stop.is_none() => Stop::Timeout(limit.unwrap_or_default()),
                _ = &mut cancel, if stop.is_none() => Stop::Cancelled,
                _ = measure.tick(), if stop.is_none() => {
                    let Some(excess) = self.excess(written, resident) else {
                        continue;
                    };
                    excess
                }
            };
            stop = Some(reason);
            if let Stop::Memory(_) = reason {
                // The kernel has less.
                patience = Patience::of(STRONGER / 4);
            }
            repeat.reset_immediately();
        }
    }
    /// Waits for what runs no user code, and so has nothing in it to interrupt.
    pub(super) async fn answered<T>(
        &self,
        mut finished: oneshot::Receiver<T>,
        cancel: impl Future<Output = ()>,
    ) -> (Reply<T>, Option<Stop>) {
        let Some(worker) = self.worker() else {
            return (finished.await, None);
        };
        tokio::select! {
            biased;
            reply = &mut finished => return (reply, None),
            _ = cancel => {}
        }
        match worker.within(STRONGER, &mut finished).await {
            Some(reply) => (reply, None),
            None => {
                worker.give_up();
                (finished.await, Some(Stop::Cancelled))
            }
        }
    }
}
