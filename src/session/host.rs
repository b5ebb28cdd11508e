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
    /// Nobody is to connect any more.
    stopped: CancellationToken,
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
/// What a connection has to be made again when its calls wait to be told.
const RETURN: Duration = Duration::from_secs(10);

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
            stopped: CancellationToken::new(),
        }
    }

    /// Ends the connection for good.
    pub fn leave(&self) -> HostLeft {
        self.stopped.cancel();
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
        let stopped = || connect(&self.name, "it was stopped".into());
        let link = tokio::select! {
            link = self.link_up(cancel) => Arc::new(link?),
            _ = self.stopped.cancelled() => return Err(stopped()),
        };
        *lock(&self.link) = Some(Arc::clone(&link));
        if self.stopped.is_cancelled() {
            self.drop_link();
            return Err(stopped());
        }
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
            let log = lock(&self.state).log.clone();
            let recovered = link.recover(&self.name, log, cancel).await;
            let mut state = lock(&self.state);
            match recovered {
                Ok(notice) => state.notice = Some(notice),
                Err(notice) => {
                    state.notice = Some(notice);
                    // The log is for the process after this one, if this one has ended, too.
                    return Ok(link);
                }
            }
        }
        lock(&self.state).log = link.peer.log();
        Ok(link)
    }

    /// Calls a tool there, with arguments that it has checked itself; a connection that has
    /// ended is made again, once.
    pub async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: Map<String, Value>,
        ticket: &Ticket,
    ) -> Result<Answer, Failure> {
        let link = self.link(&ticket.cancel).await?;
        ticket.send_to(&self.name);
        let result = link.peer.call(tool, arguments, &ticket.cancel).await;
        match result {
            Ok(answer) => {
                lock(&self.state).log = link.peer.log();
                Ok(self.noticing(answer))
            }
            Err(Lost::Refused(problem)) => {
                let problem = format!("{}: {tool} failed there: {problem}", self.name);
                Err(Failure::new(Phase::Handshake, problem))
            }
            Err(Lost::Cancelled) => Err(connect(&self.name, "cancelled".into())),
            Err(Lost::Ended) => Err(self.lost(tool, &link, &ticket.cancel).await),
        }
    }

    /// What a call comes to whose connection has ended. Unless that was the network's end, it
    /// is made again at once, to tell what became of the session.
    async fn lost(
        self: &Arc<Self>,
        tool: &str,
        link: &Arc<Link>,
        cancel: &CancellationToken,
    ) -> Failure {
        let words = link.last_words().await;
        let lost = format!("the connection was lost while {tool} ran there");
        let current = lock(&self.link).clone();
        if current.is_some_and(|current| Arc::ptr_eq(&current, link)) && !link.lost_its_way() {
            // In a task of its own: a log that is being run again is not to be left half run.
            let host = Arc::clone(self);
            let again = tokio::spawn(async move { host.connect(&CancellationToken::new()).await });
            tokio::select! {
                _ = timeout(RETURN, again) => {}
                _ = cancel.cancelled() => {}
            }
        }
        let then = match (self.is_live(), self.notice()) {
            (_, Some(notice)) => notice,
            (true, None) => "it is up again, and what ran may go on there".to_string(),
            (false, None) => {
                "what ran may go on there, and the next call connects again".to_string()
            }
        };
        connect(&self.name, format!("{}; {then}", said(&lost, &words)))
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

    /// Ends the connection for good, and with `end` the topup there. False if there was none.
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
        self.stopped.cancel();
        self.drop_link();
        Ok(was_live)
    }

    fn drop_link(&self) {
        if let Some(link) = lock(&self.link).take() {
            link.end();
        }
    }
}
