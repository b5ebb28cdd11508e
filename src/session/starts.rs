//! Starts of named sessions, which can be ended before their sessions are up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tokio_util::sync::CancellationToken;

use super::{Ticket, lock};
use crate::evaluator::Stop;
use crate::tools::{Failure, Phase};

/// Those that are on, by name; the starts of one name end together.
#[derive(Default)]
pub struct Starts(Mutex<BTreeMap<String, Weak<CancellationToken>>>);

/// A start that is on, from the moment when it waits for others of its name.
pub struct Start<'a> {
    name: &'a str,
    ticket: &'a Ticket,
    ended: Arc<CancellationToken>,
}

impl Starts {
    pub fn begin<'a>(&self, name: &'a str, ticket: &'a Ticket) -> Start<'a> {
        let mut starts = lock(&self.0);
        let on = starts.get(name).and_then(Weak::upgrade);
        let ended = on.unwrap_or_else(|| {
            let ended = Arc::new(CancellationToken::new());
            starts.insert(name.to_string(), Arc::downgrade(&ended));
            ended
        });
        Start {
            name,
            ticket,
            ended,
        }
    }

    /// Whether the session `name` is being started, or the one whose sibling that will be.
    pub fn are_on(&self, name: &str) -> bool {
        let starts = lock(&self.0);
        let on = starts.get(primary(name));
        on.is_some_and(|start| start.strong_count() > 0)
    }

    /// Ends the starts of that session that have begun. False if there are none.
    pub fn end(&self, name: &str) -> bool {
        let ended = lock(&self.0).remove(primary(name));
        let ended = ended.and_then(|start| start.upgrade());
        ended.is_some_and(|ended| {
            ended.cancel();
            true
        })
    }
}

fn primary(name: &str) -> &str {
    name.split_once('.').map_or(name, |(primary, _)| primary)
}

impl Start<'_> {
    /// Does a part of it, unless the start is ended or its call is taken back.
    pub async fn unless_ended<T>(&self, part: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            _ = self.ended.cancelled() => {}
            _ = self.ticket.cancel.cancelled() => {}
            done = part => return Ok(done),
        }
        let text = format!(
            "{}; session {:?} was not started",
            Stop::Cancelled,
            self.name
        );
        Err(Failure::new(Phase::Prewarm, text))
    }
}
