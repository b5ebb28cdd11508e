//! What a routed call has been told by its worker. If the server's process goes on in a
//! fresh image meanwhile, the call is begun again there, and gets the same replies again
//! without anything being done twice.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::lock;

/// A reply's JSON.
pub type Line = Vec<u8>;

/// Shared by a call's ticket and the conversation with the worker, while its turn is on.
#[derive(Debug, Default)]
pub struct Journal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether the call's turn with a worker has come.
    begun: bool,
    /// Of the image before this one, and not given to the call yet.
    before: VecDeque<Line>,
    /// Whether the call had an unanswered request then.
    waiting: bool,
    replies: Vec<Line>,
}

impl Journal {
    /// Of a call that was in flight when the image before this one ended.
    pub fn resumed(replies: Vec<Line>) -> Journal {
        Journal(Mutex::new(State {
            before: replies.into(),
            waiting: true,
            ..State::default()
        }))
    }

    pub fn begin(&self) {
        self.state().begun = true;
    }

    /// The replies so far, if the call's turn has come.
    pub fn replies(&self) -> Option<Vec<Line>> {
        let state = self.state();
        state.begun.then(|| state.replies.clone())
    }

    /// Whether the call was begun in the image before this one.
    pub fn is_resumed(&self) -> bool {
        let state = self.state();
        state.waiting || !state.before.is_empty()
    }

    /// The reply that the next request got before.
    pub fn reply_of_before(&self) -> Option<Line> {
        let mut state = self.state();
        let line = state.before.pop_front()?;
        state.replies.push(line.clone());
        Some(line)
    }

    /// Whether the next request was sent already. True once.
    pub fn was_sent(&self) -> bool {
        std::mem::take(&mut self.state().waiting)
    }

    pub fn add(&self, reply: &Line) {
        self.state().replies.push(reply.clone());
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0)
    }
}
