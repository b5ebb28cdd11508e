//! A connection to a remote host: the tunnel, and the topup at its other end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::peer::{Greeting, Lost, Peer};
use super::ssh::{Ssh, Tunnel, connect};
use crate::session::known::check_socket;
use crate::tools::{Failure, Phase};

/// Half of it is none: when one end has gone, the other goes.
pub struct Link {
    pub peer: Peer,
    tunnel: Tunnel,
    /// The socket's absolute path there.
    pub socket: String,
    /// The largest file that the topup there takes and gives.
    pub transfer_max: u64,
}

/// What a topup has to greet by: it may have to find out first that the client before us is
/// no longer there.
const GREETING: Duration = Duration::from_secs(20);
/// What ssh has to tell why a connection has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Link {
    /// Brings up a tunnel to the topup on the host `name` that serves at `asked`, or is to.
    pub async fn open(
        ssh: &Ssh,
        name: &str,
        asked: &str,
        cancel: &CancellationToken,
    ) -> Result<(Link, Greeting), Failure> {
        let socket = match asked.starts_with('/') {
            true => asked.to_string(),
            false => ssh.resolve(name, asked, cancel).await?,
        };
        check_socket(&socket)?;
        let (tunnel, connected) = ssh.tunnel(name, &socket, cancel).await?;
        let peer =
            Peer::new(connected).map_err(|error| connect(name, format!("the tunnel: {error}")))?;
        let greeting = match timeout(GREETING, peer.greet(cancel)).await {
            Ok(Ok(greeting)) => greeting,
            Ok(Err(Lost::Ended)) => {
                let words = last_words(&tunnel).await;
                let problem = "the tunnel was closed before topup answered; does sshd there \
                    allow tunnels to sockets (AllowStreamLocalForwarding)?";
                return Err(connect(name, said(problem, &words)));
            }
            Ok(Err(Lost::Cancelled)) => return Err(connect(name, "cancelled".into())),
            Ok(Err(Lost::Refused(problem))) => {
                let problem = format!("{name}: at {socket} there: {problem}");
                return Err(Failure::new(Phase::Handshake, problem));
            }
            Ok(Err(Lost::Silent)) | Err(_) => {
                let problem = format!(
                    "{name}: topup serves at {socket} there but does not answer; it serves one \
                     client at a time, and another one may be connected (end that, or pass \
                     another remote_socket), or it is stopped"
                );
                return Err(Failure::new(Phase::Handshake, problem));
            }
        };
        let link = Link {
            peer,
            tunnel,
            socket,
            transfer_max: greeting.transfer_max,
        };
        Ok((link, greeting))
    }

    /// The process there is another one: has it run what the one before it had logged. Says
    /// how that went; the error is that it is not known.
    pub async fn recover(&self, name: &str, log: Option<PathBuf>) -> Result<String, String> {
        let end = ended(name);
        let Some(log) = log else {
            let empty = format!("{end}, which is empty: there was nothing in the phrase log");
            return Ok(empty);
        };
        let arguments = json!({ "log": log, "end": end });
        let Value::Object(arguments) = arguments else {
            return Ok(end);
        };
        let never = CancellationToken::new();
        match self.peer.call("_recover", arguments, &never).await {
            Ok(answer) => {
                let payload: Value = serde_json::from_str(&answer.payload).unwrap_or_default();
                let text = payload["notice"].as_str().or(payload["error"].as_str());
                Ok(match answer.is_error {
                    false => text.unwrap_or(&end).to_string(),
                    true => format!("{end}, which is empty: {}", text.unwrap_or_default()),
                })
            }
            Err(_) => Err(unknown(name)),
        }
    }

    pub fn is_alive(&self) -> bool {
        self.peer.is_alive() && self.tunnel.process().is_running()
    }

    pub fn end(&self) {
        self.peer.end();
        self.tunnel.end();
    }

    /// Sees to it that no half is left.
    pub async fn watch(self: Arc<Self>) {
        tokio::select! {
            _ = self.tunnel.process().ended() => {}
            // It may be about to tell why.
            _ = self.peer.gone() => drop(timeout(LAST_WORDS, self.tunnel.process().ended()).await),
        }
        self.end();
    }

    /// What ssh says of the end of the connection, when it has said it.
    pub async fn last_words(&self) -> String {
        last_words(&self.tunnel).await
    }

    /// Whether its end was the network's, as far as ssh has told.
    pub fn lost_its_way(&self) -> bool {
        self.tunnel.has_failed()
    }
}

/// What has happened when the process on `name` is another one.
fn ended(name: &str) -> String {
    format!(
        "the topup on {name} that this session was in has ended, and its state is lost; another \
         one was started"
    )
}

/// The same, when it is not known how the other one's recovery went.
pub fn unknown(name: &str) -> String {
    format!(
        "{}, which was told to run the phrase log again; the connection was given up before it \
         had said how that went",
        ended(name)
    )
}

async fn last_words(tunnel: &Tunnel) -> String {
    let process = tunnel.process();
    let refused = process.until(|heard| {
        let refused = |line: &String| line.contains("open failed");
        heard.words.iter().any(refused).then_some(())
    });
    let told = async {
        tokio::select! {
            _ = process.ended() => {}
            _ = refused => {}
        }
    };
    let _ = timeout(LAST_WORDS, told).await;
    tunnel.last_words()
}

/// A problem, with ssh's words if there are any.
pub fn said(problem: &str, words: &str) -> String {
    match words.is_empty() {
        true => problem.to_string(),
        false => format!("{problem}: {words}"),
    }
}
