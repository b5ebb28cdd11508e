//! What the methods of MCP mean, in the handshake era (2024-11-05 to 2025-11-25).

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::jsonrpc::{Fault, Id, id_of};
use crate::tools::{self, Answer, Tool};

/// The revisions whose `initialize` is answered with the client's own.
pub const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

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

/// Reads a request.
pub fn request(method: &str, mut params: Map<String, Value>) -> Result<Request, Fault> {
    match method {
        "initialize" => Ok(Request::Now(initialize(&params))),
        "ping" => Ok(Request::Now(json!({}))),
        "tools/list" => Ok(Request::Now(json!({ "tools": tools::descriptors() }))),
        "tools/call" => {
            let name = match params.remove("name") {
                Some(Value::String(name)) => name,
                _ => return Err(Fault::invalid_params("params.name must be a tool's name")),
            };
            let arguments = match params.remove("arguments") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(arguments)) => arguments,
                Some(_) => return Err(Fault::invalid_params("params.arguments must be an object")),
            };
            let tool = tools::find(&name).ok_or_else(|| {
                Fault::invalid_params(format!("unknown tool {name:?}; {}", known()))
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
        _ => Err(Fault::unknown_method(method)),
    }
}

fn known() -> String {
    let names: Vec<_> = tools::ALL.iter().map(|tool| tool.name).collect();
    format!("the tools are {}", names.join(", "))
}

fn initialize(params: &Map<String, Value>) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let revision = asked
        .filter(|asked| REVISIONS.contains(asked))
        .unwrap_or(REVISIONS[0]);
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "topup", "version": env!("CARGO_PKG_VERSION") },
        "instructions": tools::INSTRUCTIONS,
    })
}

/// What a notification asks for.
#[derive(Debug, PartialEq)]
pub enum Notification {
    /// `notifications/cancelled` for a request of this connection.
    Withdraw(Id),
    /// `notifications/cancelled` for what runs in the local toplevel, named or implied.
    CancelLocal,
    /// Nothing to do, known or not.
    Other,
}

/// Reads a notification. Explicit `host` and `session` fields come before `requestId`.
pub fn notification(method: &str, params: &Map<String, Value>) -> Notification {
    if method != "notifications/cancelled" {
        return Notification::Other;
    }
    let mut targets = ["host", "session"]
        .iter()
        .filter_map(|key| params.get(*key)?.as_str());
    match (targets.next(), params.get("requestId").and_then(id_of)) {
        (Some("local"), _) | (None, None) => Notification::CancelLocal,
        (Some(_), _) => Notification::Other,
        (None, Some(request)) => Notification::Withdraw(request),
    }
}

/// The notification that a call goes on: its time in seconds rises, and `message` says where
/// it is. (`message` came with 2025-03-26; earlier clients pass it over.)
pub fn progress(token: &Value, elapsed: Duration, message: &str) -> String {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {
            "progressToken": token,
            "progress": (elapsed.as_secs_f64() * 1e3).round() / 1e3,
            "message": message,
        },
    })
    .to_string()
}

/// The result of `tools/call`: the payload as one text item.
pub fn call_result(answer: Answer) -> impl Serialize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CallResult {
        content: [Text; 1],
        is_error: bool,
    }
    #[derive(Serialize)]
    struct Text {
        r#type: &'static str,
        text: String,
    }
    CallResult {
        is_error: answer.is_error,
        content: [Text {
            r#type: "text",
            text: answer.payload,
        }],
    }
}
