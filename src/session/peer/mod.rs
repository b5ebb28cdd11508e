//! Another topup, spoken to over a socket: a client of MCP. Calls go out as they come, each
//! with an id of ours, and their replies are told apart by those.

mod pulse;
mod wire;

use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::lock;
use crate::protocol::messages::LOG;
use crate::stdio;
use crate::tools::Answer;
use pulse::watch;
use wire::{Expected, Kind, Line, Waiting, line, read, write};

/// The connection. It ends when this is dropped.
pub struct Peer {
    lines: mpsc::UnboundedSender<Line>,
    waiting: Arc<Mutex<Waiting>>,
    ended: CancellationToken,
    /// The phrase log of the session there, as the last reply named it.
    log: Arc<Mutex<Option<PathBuf>>>,
}

/// Why a request has no reply.
#[derive(Debug, PartialEq)]
pub enum Lost {
    /// The connection has ended.
    Ended,
    /// Its caller took it back.
    Cancelled,
    /// The peer has said nothing for half a minute, though it was asked whether it is there.
    Silent,
    /// What the peer says is wrong with it, or what is wrong with the reply.
    Refused(String),
}

/// A request that is on its way.
pub struct Sent {
    id: u64,
    replied: oneshot::Receiver<Value>,
}

/// Who is at the other end.
#[derive(Debug, Clone, Deserialize)]
pub struct Greeting {
    /// Another one after each start of the process, the same after a crash.
    pub process: String,
    pub log: Option<PathBuf>,
    /// The largest file that it takes and gives, in bytes.
    pub transfer_max: u64,
}

/// The revision that topups speak with each other.
const REVISION: &str = "2025-11-25";

impl Peer {
    /// Speaks over `socket` from now on. To be called inside the tokio runtime.
    pub fn new(socket: StdStream) -> std::io::Result<Peer> {
        let socket = StdStream::from(stdio::private(&socket)?);
        socket.set_nonblocking(true)?;
        let (input, output) = UnixStream::from_std(socket)?.into_split();
        let (lines, to_write) = mpsc::unbounded_channel();
        let peer = Peer {
            lines: lines.clone(),
            waiting: Arc::default(),
            ended: CancellationToken::new(),
            log: Arc::default(),
        };
        let (waiting, ended) = (Arc::clone(&peer.waiting), peer.ended.clone());
        let calls = Arc::clone(&waiting);
        tokio::spawn(write(output, to_write, calls, ended.clone()));
        let calls = Arc::clone(&waiting);
        tokio::spawn(watch(calls, lines.clone(), ended.clone()));
        tokio::spawn(async move {
            tokio::select! {
                _ = ended.cancelled() => {}
                _ = read(input, &waiting, &lines) => {}
            }
            ended.cancel();
            lock(&waiting).calls.clear();
        });
        Ok(peer)
    }

    /// Finds out who is there; the error says what is wrong with that.
    pub async fn greet(&self, cancel: &CancellationToken) -> Result<Greeting, Lost> {
        let refused = |text: String| Err(Lost::Refused(text));
        let version = env!("CARGO_PKG_VERSION");
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": { "name": "topup", "version": version },
        });
        let sent = self.begin("initialize", params)?;
        let reply = self.result(sent, cancel).await?;
        let info = &reply["serverInfo"];
        if info["name"] != "topup" {
            return refused(format!("what answers there is {}, not topup", info["name"]));
        }
        if reply["protocolVersion"] != REVISION || info["version"] != version {
            let theirs = info["version"].as_str().unwrap_or_default();
            return refused(other_version(theirs));
        }
        self.notify("notifications/initialized", json!({}));
        let answer = self.call("_greet", Map::new(), cancel).await?;
        match serde_json::from_str::<Greeting>(&answer.payload) {
            Ok(greeting) => {
                *lock(&self.log) = greeting.log.clone();
                Ok(greeting)
            }
            Err(error) => refused(format!("its answer to _greet makes no sense: {error}")),
        }
    }

    /// Calls a tool there; returns the answer as it comes.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<Answer, Lost> {
        let sent = self.begin_call(tool, arguments)?;
        self.answer(tool, sent, cancel).await
    }

    /// The first half of that: it goes out before all that is sent after this.
    pub fn begin_call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Sent, Lost> {
        self.begin(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// The second half.
    pub async fn answer(
        &self,
        tool: &str,
        sent: Sent,
        cancel: &CancellationToken,
    ) -> Result<Answer, Lost> {
        let mut result = self.result(sent, cancel).await?;
        if let Some(log) = result["_meta"].get(LOG) {
            *lock(&self.log) = log.as_str().map(PathBuf::from);
        }
        let payload = result.pointer_mut("/content/0/text").map(Value::take);
        match (payload, &result["isError"]) {
            (Some(Value::String(payload)), Value::Bool(is_error)) if is_object(&payload) => {
                Ok(Answer {
                    payload,
                    is_error: *is_error,
                })
            }
            _ => Err(Lost::Refused(format!(
                "its answer to {tool} is no result of a tool"
            ))),
        }
    }

    fn begin(&self, method: &str, params: Value) -> Result<Sent, Lost> {
        let (reply, replied) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        // Looked at with the lock held: who ends the connection clears the calls after it.
        if self.ended.is_cancelled() {
            return Err(waiting.why());
        }
        waiting.last += 1;
        let id = waiting.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let bytes = line(&request);
        let length = bytes.len();
        waiting.calls.insert(id, Expected { reply, length });
        let kind = Kind::Call(id);
        let _ = self.lines.send(Line { bytes, kind });
        Ok(Sent { id, replied })
    }

    async fn result(&self, sent: Sent, cancel: &CancellationToken) -> Result<Value, Lost> {
        let Sent { id, replied } = sent;
        let reply = tokio::select! {
            biased;
            reply = replied => reply.map_err(|_| lock(&self.waiting).why())?,
            _ = cancel.cancelled() => {
                lock(&self.waiting).calls.remove(&id);
                self.notify("notifications/cancelled", json!({ "requestId": id }));
                return Err(Lost::Cancelled);
            }
        };
        let Value::Object(mut reply) = reply else {
            return Err(Lost::Refused("its reply is no object".into()));
        };
        match (reply.remove("result"), reply.remove("error")) {
            (Some(result), None) => Ok(result),
            (_, Some(error)) => {
                let message = error["message"].as_str().unwrap_or("it says no more");
                Err(Lost::Refused(message.to_string()))
            }
            (None, None) => Err(Lost::Refused("its reply has no result".into())),
        }
    }

    fn notify(&self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let bytes = line(&message);
        // If it has ended, whoever waits for a reply learns that.
        let kind = Kind::Other;
        let _ = self.lines.send(Line { bytes, kind });
    }

    pub fn is_alive(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Completes when the connection has ended.
    pub async fn gone(&self) {
        self.ended.cancelled().await
    }

    /// Ends the connection.
    pub fn end(&self) {
        self.ended.cancel();
    }

    pub fn log(&self) -> Option<PathBuf> {
        lock(&self.log).clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is wrong with a topup that says it is `theirs`.
pub fn other_version(theirs: &str) -> String {
    format!(
        "the topup there is version {theirs}, this one is {}: install the same on both sides",
        env!("CARGO_PKG_VERSION")
    )
}

/// Whether it is JSON, as every payload is.
fn is_object(payload: &str) -> bool {
    payload.starts_with('{') && serde_json::from_str::<IgnoredAny>(payload).is_ok()
}
