//! The toplevel in this process, after the process has come to its end and gone on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::Session;
use crate::end::End;
use crate::error::EvaluatorError;
use crate::job::{Recover, Reset};
use crate::outcome::Recovered;
use crate::reexec::Handover;
use crate::router::Work;
use crate::tools::{Answer, Failure, Printed};

/// How the session goes on.
const THEN: &str =
    "topup goes on in a fresh process, with the session restored from its phrase log";

impl Session {
    /// The answer to the call that ran when the process came to its `end`.
    pub fn fallen(&self, end: End) -> Answer {
        let (stdout, stderr) = self.evaluator().printed();
        let printed = Printed::new(stdout, stderr);
        Answer::new(&Failure::crashed(end, THEN, printed), true)
    }

    /// Begins to run the phrase log again after the process came to its end. No turn comes
    /// before that is over; the next evaluation's notice says how it went. `work` is what
    /// is in flight until then.
    pub async fn begin_recovery(self: &Arc<Self>, handover: &Handover, work: Work) {
        let session = Arc::clone(self);
        let (end, skipped) = (handover.end.clone(), handover.skipped.clone());
        let starts_empty = handover.recent_ends() >= TOO_MANY;
        let (begun, has_begun) = oneshot::channel();
        tokio::spawn(async move {
            let _place = session.queue.lock().await;
            let _ = begun.send(());
            let recover = Recover {
                log: None,
                done: 0,
                skip: skipped.clone(),
            };
            let notice = if starts_empty {
                session.start_empty(&end).await
            } else {
                match session.run_again(recover).await {
                    Ok(recovered) => recovery(&end, 0, &skipped, &recovered),
                    Err(error) => format!("{end}; the session's state is lost: {error}"),
                }
            };
            session.notify(notice);
            drop(work);
        });
        let _ = has_begun.await;
    }

    /// Runs a phrase log again; who cancels has it give up the phrase at hand, and go on with
    /// the next.
    pub async fn run_again(&self, recover: Recover) -> Result<Recovered, EvaluatorError> {
        self.is_used.store(true, Ordering::Relaxed);
        let (evaluator, give_up) = (self.evaluator(), Notify::new());
        let recovered = evaluator.recover(recover, &give_up);
        tokio::pin!(recovered);
        let recovered = loop {
            let stop = CancellationToken::new();
            *self.current() = Some(stop.clone());
            tokio::select! {
                biased;
                recovered = &mut recovered => break recovered,
                _ = stop.cancelled() => give_up.notify_one(),
            }
        };
        *self.current() = None;
        recovered
    }

    async fn start_empty(&self, end: &str) -> String {
        let evaluator = self.evaluator();
        let reset = evaluator.run(Reset {}, None, std::future::pending());
        let kept = match reset.await {
            Ok(_) => "the old phrase log is kept".to_string(),
            Err(error) => error.to_string(),
        };
        format!(
            "{end}; that was the {TOO_MANY}rd time within a minute, so the session starts empty ({kept})"
        )
    }
}

/// So many ends of the process within a minute are too many.
pub const TOO_MANY: usize = 3;

/// How the session came back.
///
/// `done` phrases were not run: the process that was begun with had done that.
pub fn recovery(end: &str, done: usize, skipped: &[usize], recovered: &Recovered) -> String {
    let Recovered { phrases, lost } = recovered;
    let again = match done {
        0 => format!("its {phrases} phrases again"),
        _ => format!(
            "its {} phrases again in another process that had been prewarmed",
            phrases.saturating_sub(done)
        ),
    };
    let mut text = format!(
        "{end}; the session was restored by running {again} (mutable state is as they left it, \
         archives that were loaded by hand must be loaded again)"
    );
    for number in skipped {
        text += &format!("\nnot restored: phrase {number}, which ended the process");
    }
    for (number, error) in lost {
        let says = |line: &&str| line.starts_with("Error") || line.starts_with("Exception");
        let error = error
            .lines()
            .find(says)
            .or(error.lines().next())
            .unwrap_or_default();
        text += &format!("\nnot restored: phrase {number}: {error}");
    }
    text
}
