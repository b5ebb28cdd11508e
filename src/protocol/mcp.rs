//! What the methods of MCP mean, in both eras: with a handshake (2024-11-05 to 2025-11-25)
//! and stateless (2026-07-28), side by side on one connection.

use serde_json::{Map, Value, json};

use super::jsonrpc::{Fault, Id, id_of};
use super::revision::Revision;
use crate::router::LOCAL;
use crate::tools::{self, Tool};

/// The protocol's side of one connection.
#[derive(Default)]
pub struct Negotiation {
    /// What the latest handshake settled.
    agreed: Option<Revision>,
    /// What the latest request was in.
    latest: Option<Revision>,
    /// Whether the client is another topup, as its handshake says.
    is_topup: bool,
}

/// What a request asks for.
pub enum Request {
    /// Answered without any work.
    Now(Value),
    Call {
        tool: &'static Tool,
        arguments: Map<String, Value>,
        /// What to say with each progress notification, if the client wants any.
        progress_token: Option<Value>,
    },
}

/// Keys of a stateless request's `_meta`, and of its result's.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// How long clients may keep the list of tools, which does not change while we run.
const TOOLS_TTL_MS: u64 = 3_600_000;

impl Negotiation {
    /// One that settled `agreed` already, by name.
    pub fn resume(agreed: Option<&str>, is_topup: bool) -> Negotiation {
        Negotiation {
            agreed: agreed.and_then(Revision::named),
            is_topup,
            ..Negotiation::default()
        }
    }

    pub fn agreed(&self) -> Option<Revision> {
        self.agreed
    }

    pub fn is_topup(&self) -> bool {
        self.is_topup
    }

    /// The revision of requests that name none.
    pub fn revision(&self) -> Revision {
        self.agreed.unwrap_or(Revision::V2024_11_05)
    }

    /// The revision that the client speaks, for what belongs to no request.
    pub fn latest(&self) -> Revision {
        self.latest.unwrap_or(self.revision())
    }

    /// Reads a request; also returns the revision that its reply is to be in. `instructions`
    /// makes what a client reads first.
    pub fn request(
        &mut self,
        method: &str,
        params: Map<String, Value>,
        instructions: impl FnOnce() -> String,
    ) -> Result<(Revision, Request), Fault> {
        let revision = match stateless(&params)? {
            Some(revision) => revision,
            // It belongs to the stateless era, whatever its `_meta` lacks.
            None if method == "server/discover" => return Err(missing(VERSION)),
            None => self.revision(),
        };
        self.latest = Some(revision);
        let request = match method {
            "initialize" if !revision.is_stateless() => {
                Request::Now(self.initialize(&params, instructions()))
            }
            "ping" if !revision.is_stateless() => Request::Now(json!({})),
            "server/discover" => Request::Now(discover(instructions())),
            "tools/list" => Request::Now(tools_list(revision)),
            "tools/call" => call(params)?,
            _ => return Err(Fault::unknown_method(method)),
        };
        Ok((revision, request))
    }

    fn initialize(&mut self, params: &Map<String, Value>, instructions: String) -> Value {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let agreed = asked
            .and_then(Revision::named)
            .filter(|revision| !revision.is_stateless())
            .unwrap_or(Revision::V2024_11_05);
        self.agreed = Some(agreed);
        self.is_topup = params
            .get("clientInfo")
            .is_some_and(|i| i["name"] == "topup");
        self.latest = Some(agreed);
        json!({
            "protocolVersion": agreed.name(),
            "capabilities": capabilities(),
            "serverInfo": server_info(),
            "instructions": instructions,
        })
    }
}

/// The revision that a request of the stateless era names; `None` for one of the other.
fn stateless(params: &Map<String, Value>) -> Result<Option<Revision>, Fault> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let Some(asked) = meta.and_then(|meta| meta.get(VERSION)) else {
        return Ok(None);
    };
    let Some(name) = asked.as_str() else {
        return Err(Fault::invalid_params(format!(
            "_meta.{VERSION} must be a string"
        )));
    };
    match Revision::named(name).filter(|revision| revision.is_stateless()) {
        None => Err(Fault::unsupported_version(name, &names())),
        Some(_)
            if !meta.is_some_and(|meta| meta.get(CAPABILITIES).is_some_and(Value::is_object)) =>
        {
            Err(missing(CAPABILITIES))
        }
        revision => Ok(revision),
    }
}

fn missing(key: &str) -> Fault {
    Fault::invalid_params(format!("params._meta lacks {key:?}"))
}

/// Every revision that is served, the newest first.
fn names() -> Vec<&'static str> {
    Revision::ALL.iter().rev().map(|r| r.name()).collect()
}

fn capabilities() -> Value {
    json!({ "tools": {} })
}

pub(super) fn server_info() -> Value {
    json!({ "name": "topup", "version": env!("CARGO_PKG_VERSION") })
}

fn discover(instructions: String) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": names(),
        "capabilities": capabilities(),
        "instructions": instructions,
        // Hosts and sessions come and go.
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { SERVER_INFO: server_info() },
    })
}

fn tools_list(revision: Revision) -> Value {
    let mut result = json!({ "tools": tools::descriptors(revision) });
    if revision.is_stateless() {
        result["resultType"] = "complete".into();
        result["ttlMs"] = TOOLS_TTL_MS.into();
        result["cacheScope"] = "public".into();
        result["_meta"] = json!({ SERVER_INFO: server_info() });
    }
    result
}

fn call(mut params: Map<String, Value>) -> Result<Request, Fault> {
    let name = match params.remove("name") {
        Some(Value::String(name)) => name,
        _ => return Err(Fault::invalid_params("params.name must be a tool's name")),
    };
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(Fault::invalid_params("params.arguments must be an object")),
    };
    let known = || {
        let names: Vec<_> = tools::ALL.iter().map(|tool| tool.name).collect();
        names.join(", ")
    };
    let tool = tools::find(&name).ok_or_else(|| {
        Fault::invalid_params(format!("unknown tool {name:?}; the tools are {}", known()))
    })?;
    let token = params
        .get("_meta")
        .and_then(|meta| meta.get("progressToken"));
    let progress_token = token.filter(|t| t.is_string() || t.is_number()).cloned();
    Ok(Request::Call {
        tool,
        arguments,
        progress_token,
    })
}

/// What a notification asks for.
#[derive(Debug, PartialEq)]
pub enum Notification {
    /// `notifications/cancelled` for a request of this connection.
    Withdraw(Id),
    /// `notifications/cancelled` for what runs in a session, named or the local one.
    Cancel(String),
    /// The same for what runs on another machine.
    CancelOn(String),
    /// Nothing to do, known or not.
    Other,
}

/// Reads a notification. Explicit `host` and `session` fields come before `requestId`.
pub fn notification(method: &str, params: &Map<String, Value>) -> Notification {
    if method != "notifications/cancelled" {
        return Notification::Other;
    }
    let target = |key| params.get(key).and_then(Value::as_str);
    let request = params.get("requestId").and_then(id_of);
    match (target("host"), target("session"), request) {
        (Some(LOCAL), _, _) | (None, None, None) => Notification::Cancel(LOCAL.into()),
        (Some(host), _, _) => Notification::CancelOn(host.into()),
        (None, Some(session), _) => Notification::Cancel(session.into()),
        (None, None, Some(request)) => Notification::Withdraw(request),
    }
}
