//! Which session a call goes to.

use std::sync::Arc;

use tokio::sync::watch;

use crate::end::End;
use crate::instructions;
use crate::session::{Host, Hosts, Registry, Session};
use crate::tools::{Answer, Arguments, Failure, Phase};

/// Knows every session that calls can name.
pub struct Router {
    local: Arc<Session>,
    registry: Arc<Registry>,
    hosts: Arc<Hosts>,
    /// How many things are in flight.
    work: watch::Sender<usize>,
}

/// Something that is in flight while this is there: a call, whatever becomes of its client.
pub struct Work(watch::Sender<usize>);

/// Where a call goes.
pub enum Target {
    Session(Arc<Session>),
    /// Another machine, whose topup does all the rest.
    Host(Arc<Host>),
    /// A session of this name is being started: there is nothing yet but to cancel that.
    Starting(String),
}

/// What names the toplevel in this process.
pub const LOCAL: &str = "local";

impl Router {
    pub fn new(local: Arc<Session>, registry: Registry, hosts: Hosts) -> Router {
        Router {
            local,
            registry: Arc::new(registry),
            hosts: Arc::new(hosts),
            work: watch::Sender::new(0),
        }
    }

    /// What the `host` and `session` arguments name; takes them out.
    pub fn target(&self, arguments: &mut Arguments) -> Result<Target, Failure> {
        let names = (arguments.text("host"), arguments.text("session"));
        let problem = match names {
            (Some(_), Some(_)) => "host and session exclude each other, also where they are \
                                   \"local\"; pass one, or neither for the toplevel in this process"
                .to_string(),
            (Some(host), None) if host != LOCAL => {
                return self.hosts.find(&host).map(Target::Host);
            }
            (None, Some(name)) if name != LOCAL => match self.registry.find(&name) {
                Some(session) => return Ok(Target::Session(session)),
                None if self.registry.is_starting(&name) => return Ok(Target::Starting(name)),
                None => self.registry.missing(&name),
            },
            _ => return Ok(Target::Session(Arc::clone(&self.local))),
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

    pub fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// The answer to the call that ran when the process came to its `end`.
    pub fn fallen(&self, end: End) -> Answer {
        self.local.fallen(end)
    }

    /// What a client reads before its first call.
    pub fn instructions(&self) -> String {
        instructions::instructions(self.registry.list(), self.hosts.list())
    }

    /// Something begins.
    pub fn begin_work(&self) -> Work {
        self.work.send_modify(|count| *count += 1);
        Work(self.work.clone())
    }

    /// Completes as soon as nothing is in flight anywhere.
    pub async fn idle(&self) {
        // It does not fail: the sender is ours.
        let _ = self.work.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Interrupts what runs in the session `name`, if there is one and anything does, or its
    /// start.
    pub fn cancel(&self, name: &str) {
        if name == LOCAL {
            self.local.cancel();
        } else if let Some(session) = self.registry.find(name) {
            session.cancel();
        } else {
            self.registry.cancel_start(name);
        }
    }

    /// Interrupts what runs on the registered host `name`.
    pub fn cancel_on(&self, name: &str) {
        if let Ok(host) = self.hosts.find(name) {
            // Nobody is to be told.
            tokio::spawn(async move { host.cancel().await.map(drop) });
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
