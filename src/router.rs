//! Which session a call goes to.

use std::sync::Arc;

use crate::end::End;
use crate::instructions;
use crate::session::{Registry, Session};
use crate::tools::{Answer, Arguments, Failure, Phase};

/// Knows every session that calls can name.
pub struct Router {
    local: Arc<Session>,
    registry: Arc<Registry>,
}

/// What names the toplevel in this process.
pub const LOCAL: &str = "local";

impl Router {
    pub fn new(local: Arc<Session>, registry: Registry) -> Router {
        Router {
            local,
            registry: Arc::new(registry),
        }
    }

    /// The session that the `host` and `session` arguments name; takes them out.
    pub fn session(&self, arguments: &mut Arguments) -> Result<Arc<Session>, Failure> {
        let host = arguments.text("host").filter(|name| name != LOCAL);
        let session = arguments.text("session").filter(|name| name != LOCAL);
        let problem = match (host, session) {
            (None, None) => return Ok(Arc::clone(&self.local)),
            (Some(_), Some(_)) => "host and session exclude each other; pass one".to_string(),
            (Some(host), None) => format!("no host {host:?}; known: {LOCAL}"),
            (None, Some(name)) => match self.registry.find(&name) {
                Some(session) => return Ok(session),
                None => self.registry.missing(&name),
            },
        };
        Err(Failure::new(Phase::Route, problem))
    }

    /// The toplevel in this process.
    pub fn local(&self) -> &Arc<Session> {
        &self.local
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The answer to the call that ran when the process came to its `end`.
    pub fn fallen(&self, end: End) -> Answer {
        self.local.fallen(end)
    }

    /// What a client reads before its first call.
    pub fn instructions(&self) -> String {
        instructions::instructions(self.registry.list())
    }

    /// Whether anything runs anywhere.
    pub fn is_busy(&self) -> bool {
        self.local.is_busy() || self.registry.is_busy()
    }

    /// Interrupts what runs in the session `name`, if there is one and anything does.
    pub fn cancel(&self, name: &str) {
        if name == LOCAL {
            self.local.cancel();
        } else if let Some(session) = self.registry.find(name) {
            session.cancel();
        }
    }
}
