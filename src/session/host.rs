//! A remote host: the tunnel to it, and the topup at its other end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::link::{Link, said};
use super::peer::Lost;
use super::ssh::{Ssh, connect};
use super::{Ticket, lock};
use crate::tools::{Answer, Failure, Phase};

/// Registered with the server that has connected to it. A connection that has ended is made
/// again by the next call.
pub struct Host {
    name: String,
    /// The socket as it was asked for; the far side resolves it.
    asked: String,
    ssh: Arc<Ssh>,
    link: Mutex<Option<Arc<Link>>>,
    /// Held by who connects.
    connecting: tokio::sync::Mutex<()>,
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

/// What the next image of the server's process needs of a host.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostLeft {
    name: String,
    asked: String,
    state: State,
}

/// What a topup has to end.
const ENDING: Duration = Duration::from_secs(10);
impl Host {
    pub fn new(name: &str, asked: &str, ssh: Arc<Ssh>) -> Host {
        let left = HostLeft {
            name: name.into(),
            asked: asked.into(),
            state: State::default(),
        };
        Host::resume(left, ssh)
    }

    pub fn resume(left: HostLeft, ssh: Arc<Ssh>) -> Host {
        Host {
            name: left.name,
            asked: left.asked,
            ssh,
            link: Mutex::default(),
            connecting: Default::default(),
            state: Mutex::new(left.state),
        }
    }

    /// Ends the connection.
    pub fn leave(&self) -> HostLeft {
        self.drop_link();
        HostLeft {
            name: self.name.clone(),
            asked: self.asked.clone(),
            state: lock(&self.state).clone(),
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
        self.live().is_some()
    }

    fn live(&self) -> Option<Arc<Link>> {
        let link = lock(&self.link).clone()?;
        link.is_alive().then_some(link)
    }

    /// Connects unless it is connected. False if it was.
    pub async fn connect(&self, cancel: &CancellationToken) -> Result<bool, Failure> {
        if self.is_live() {
            return Ok(false);
        }
        let _alone = self.connecting.lock().await;
        // Somebody else may have connected meanwhile.
        if self.is_live() {
            return Ok(false);
        }
        self.drop_link();
        let link = Arc::new(self.link_up(cancel).await?);
        *lock(&self.link) = Some(Arc::clone(&link));
        tokio::spawn(link.watch());
        Ok(true)
    }

    /// Connects anew.
    pub async fn restart(&self, cancel: &CancellationToken) -> Result<(), Failure> {
        self.drop_link();
        self.connect(cancel).await.map(drop)
    }

    async fn link_up(&self, cancel: &CancellationToken) -> Result<Link, Failure> {
        let (link, greeting) = Link::open(&self.ssh, &self.name, &self.asked, cancel).await?;
        let other = {
            let mut state = lock(&self.state);
            state.socket = Some(link.socket.clone());
            let before = state.process.replace(greeting.process.clone());
            before.is_some_and(|process| process != greeting.process)
        };
        if other {
            let log = lock(&self.state).log.take();
            let notice = link.recover(&self.name, log, cancel).await;
            lock(&self.state).notice = Some(notice);
        }
        lock(&self.state).log = link.peer.log();
        Ok(link)
    }

    /// Calls a tool there, with arguments that it has checked itself; a connection that has
    /// ended is made again, once.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        ticket: &Ticket,
    ) -> Result<Answer, Failure> {
        let link = self.link(&ticket.cancel).await?;
        ticket.send_to(&self.name);
        let result = link.peer.call(tool, arguments, &ticket.cancel).await;
        lock(&self.state).log = link.peer.log();
        let failure = match result {
            Ok(answer) => return Ok(self.noticing(answer)),
            Err(Lost::Refused(problem)) => Failure::new(
                Phase::Handshake,
                format!("{}: {tool} was refused there: {problem}", self.name),
            ),
            Err(Lost::Cancelled) => connect(&self.name, "cancelled".into()),
            Err(Lost::Ended) => {
                let words = link.last_words().await;
                let problem = format!(
                    "the connection was lost while {tool} ran there; it may have run to its end, \
                     and the next call connects again"
                );
                connect(&self.name, said(&problem, &words))
            }
        };
        Err(failure)
    }

    /// The largest file that the host takes and gives.
    pub async fn transfer_max(&self, ticket: &Ticket) -> Result<u64, Failure> {
        Ok(self.link(&ticket.cancel).await?.transfer_max)
    }

    async fn link(&self, cancel: &CancellationToken) -> Result<Arc<Link>, Failure> {
        self.connect(cancel).await?;
        let lost = || connect(&self.name, "the connection was lost at once".into());
        lock(&self.link).clone().ok_or_else(lost)
    }

    /// What must be told of the host; once.
    pub fn notice(&self) -> Option<String> {
        lock(&self.state).notice.take()
    }

    /// With the notice, if there is one.
    fn noticing(&self, answer: Answer) -> Answer {
        let Some(notice) = self.notice() else {
            return answer;
        };
        let Ok(Value::Object(mut payload)) = serde_json::from_str(&answer.payload) else {
            return answer;
        };
        let text = match payload.get("notice").and_then(Value::as_str) {
            Some(theirs) => format!("{notice}\n{theirs}"),
            None => notice,
        };
        payload.insert("notice".into(), text.into());
        Answer::new(&payload, answer.is_error)
    }

    /// Interrupts what runs there, if it is connected.
    pub fn cancel(self: &Arc<Self>) {
        if let Some(link) = self.live() {
            tokio::spawn(async move {
                let never = CancellationToken::new();
                let _ = link.peer.call("cancel", Map::new(), &never).await;
            });
        }
    }

    /// Ends the connection, and with `end` the topup there. False if there was none.
    pub async fn stop(&self, end: bool) -> Result<bool, Failure> {
        if end {
            let link = self.link(&CancellationToken::new()).await?;
            let never = CancellationToken::new();
            let ended = link.peer.call("_end", Map::new(), &never);
            let _ = timeout(ENDING, async {
                let _ = ended.await;
                link.peer.gone().await
            })
            .await;
        }
        let was_live = end || self.is_live();
        self.drop_link();
        Ok(was_live)
    }

    fn drop_link(&self) {
        if let Some(link) = lock(&self.link).take() {
            link.end();
        }
    }
}
