//! Which session a call goes to.

use std::sync::Arc;

use crate::crash::End;
use crate::session::Local;
use crate::tools::{Answer, Arguments, Failure, Phase};

/// Knows every session that calls can name.
pub struct Router {
    local: Arc<Local>,
}

impl Router {
    pub fn new(local: Arc<Local>) -> Router {
        Router { local }
    }

    /// The session that the `host` and `session` arguments name; takes them out.
    pub fn session(&self, arguments: &mut Arguments) -> Result<Arc<Local>, Failure> {
        let host = arguments.text("host").filter(|name| name != "local");
        let session = arguments.text("session").filter(|name| name != "local");
        let problem = match (host, session) {
            (None, None) => return Ok(Arc::clone(&self.local)),
            (Some(_), Some(_)) => "host and session exclude each other; pass one".to_string(),
            (Some(host), None) => format!("no host {host:?}; known: local"),
            (None, Some(session)) => format!("no session {session:?}; known: local"),
        };
        Err(Failure::new(Phase::Route, problem))
    }

    /// The answer to the call that ran when the process came to its `end`.
    pub fn fallen(&self, end: End) -> Answer {
        self.local.fallen(end)
    }

    /// Interrupts what runs in the local toplevel, if anything does.
    pub fn cancel_local(&self) {
        self.local.cancel();
    }
}
