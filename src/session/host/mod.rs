//! A remote host: the tunnel to it, and the topup at its other end.

mod calls;
mod connection;
mod ends;
mod link;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ssh::{Ssh, connect};
use super::{Ticket, lock, peer, ssh};
use crate::tools::Failure;
use connection::{Connection, Joined, Made};
use link::{Link, unknown};

/// Registered with the server that has connected to it. A connection that has ended is made
/// again by the next call.
pub struct Host {
    name: String,
    /// The socket as it was asked for; the far side resolves it.
    asked: String,
    ssh: Arc<Ssh>,
    connection: Connection,
    /// Held by who is about to send a call: they go out in the order in which they came.
    line: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    /// The process that was connected to last, and its phrase log.
    process: Option<String>,
    log: Option<PathBuf>,
    /// The socket's absolute path there.
    socket: Option<String>,
    /// What the next answer is to say.
    notice: Option<String>,
}

/// Why a connection ends that a call has ended for good.
pub const STOPPED: &str = "stop_session ended it";

/// What a host is begun with: one that is new, was stopped, or was connected to by the image
/// of the server's process before this one.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostLeft {
    name: String,
    asked: String,
    state: State,
}

impl HostLeft {
    /// One that was never connected to.
    pub fn new(name: &str, asked: &str) -> HostLeft {
        HostLeft {
            name: name.into(),
            asked: asked.into(),
            state: State::default(),
        }
    }

    /// Its name, and the socket that it was asked for by.
    pub fn key(&self) -> (String, String) {
        (self.name.clone(), self.asked.clone())
    }
}

impl State {
    /// Says something with the next answer.
    fn notify(&mut self, text: String) {
        self.notice = Some(match self.notice.take() {
            Some(before) => format!("{before}\n{text}"),
            None => text,
        });
    }
}

impl Host {
    pub fn resume(left: HostLeft, ssh: Arc<Ssh>) -> Host {
        Host {
            name: left.name,
            asked: left.asked,
            ssh,
            connection: Connection::default(),
            line: Arc::default(),
            state: Mutex::new(left.state),
        }
    }

    /// Ends the connection for good; who waits for it is told `why`.
    pub fn leave(&self, why: &str) -> HostLeft {
        let recovers = self.connection.is_recovering();
        self.connection.stop(self.failure(why));
        let mut state = lock(&self.state).clone();
        if recovers {
            state.notify(unknown(&self.name));
        }
        HostLeft {
            name: self.name.clone(),
            asked: self.asked.clone(),
            state,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// The socket's path there.
    pub fn socket(&self) -> String {
        let state = lock(&self.state);
        state.socket.clone().unwrap_or_else(|| self.asked.clone())
    }

    pub fn is_live(&self) -> bool {
        self.connection.live().is_some()
    }

    /// Whether it is live, or is about to be.
    pub fn is_wanted(&self) -> bool {
        self.connection.is_wanted()
    }

    /// Whether it ever was connected.
    pub fn was_reached(&self) -> bool {
        lock(&self.state).process.is_some()
    }

    /// Connects unless it is connected; also returns whether it was not.
    pub async fn connect(
        self: &Arc<Self>,
        cancel: &CancellationToken,
    ) -> Result<(Arc<Link>, bool), Failure> {
        let (waiter, attempt) = match self.connection.join()? {
            Joined::Up(link) => return Ok((link, false)),
            Joined::ComesUp(waiter, attempt) => (waiter, attempt),
        };
        if let Some(attempt) = attempt {
            let host = Arc::clone(self);
            tokio::spawn(async move { host.come_up(attempt).await });
        }
        let made = tokio::select! {
            biased;
            made = waiter.made() => made,
            _ = cancel.cancelled() => Some(Err(self.failure("cancelled"))),
        };
        let link = made.unwrap_or_else(|| Err(self.failure("it was given up")))?;
        Ok((link, true))
    }

    /// Ends the connection and connects anew.
    pub async fn restart(self: &Arc<Self>, cancel: &CancellationToken) -> Result<(), Failure> {
        let why = "restart_session began the connection anew";
        self.connection.end(&self.failure(why));
        self.connect(cancel).await.map(drop)
    }

    /// Makes an attempt to connect, as long as that is wanted.
    async fn come_up(&self, attempt: CancellationToken) {
        let made = self.link_up(&attempt).await;
        let link = made.as_ref().ok().cloned();
        let counts = self.connection.finish(&attempt, made);
        match link {
            Some(link) if counts => link.watch().await,
            Some(link) => link.end(),
            None => {}
        }
    }

    async fn link_up(&self, attempt: &CancellationToken) -> Made {
        let (link, greeting) = Link::open(&self.ssh, &self.name, &self.asked, attempt).await?;
        let link = Arc::new(link);
        let (other, log) = {
            let state = lock(&self.state);
            let before = state.process.as_ref();
            let other = before.is_some_and(|process| *process != greeting.process);
            (other, state.log.clone())
        };
        if other && !self.connection.recovers(attempt, &link) {
            link.end();
            return Err(self.failure("cancelled"));
        }
        {
            let mut state = lock(&self.state);
            state.socket = Some(link.socket.clone());
            state.process = Some(greeting.process);
        }
        if other {
            let recovered = link.recover(&self.name, log).await;
            let is_known = recovered.is_ok();
            lock(&self.state).notify(recovered.unwrap_or_else(|notice| notice));
            if !is_known {
                // The log is for the process after this one, if this one has ended, too.
                return Ok(link);
            }
        }
        lock(&self.state).log = link.peer.log();
        Ok(link)
    }

    /// A failure of the way to it.
    fn failure(&self, text: &str) -> Failure {
        connect(&self.name, text.into())
    }
}
