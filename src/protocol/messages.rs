//! What the server says: results of calls, and what it sends of itself.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::jsonrpc::Id;
use super::mcp::{SERVER_INFO, server_info};
use super::revision::Revision;
use crate::tools::Answer;

/// The notification that takes a call back, as a client sends it.
pub fn withdrawal(id: &Id) -> String {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string()
}

/// The notification that a call goes on: its time in seconds rises, and `message` says where
/// it is.
pub fn progress(revision: Revision, token: &Value, elapsed: Duration, message: &str) -> String {
    let mut params = json!({
        "progressToken": token,
        "progress": (elapsed.as_secs_f64() * 1e3).round() / 1e3,
    });
    if revision.has_annotations() {
        params["message"] = message.into();
    }
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string()
}

/// Where a topup that is the client of another is told of the phrase log there.
pub const LOG: &str = "topup/log";

/// What asks a client whether it is alive.
pub fn ping() -> String {
    json!({ "jsonrpc": "2.0", "id": "topup/alive", "method": "ping" }).to_string()
}

/// The result of `tools/call`: the payload as one text item, and for another topup where the
/// phrase log is.
pub fn call_result(
    revision: Revision,
    answer: Answer,
    log: Option<Option<PathBuf>>,
) -> impl Serialize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CallResult {
        content: [Text; 1],
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        result_type: Option<&'static str>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    }
    #[derive(Serialize)]
    struct Text {
        r#type: &'static str,
        text: String,
    }
    let stateless = revision.is_stateless();
    let server = stateless.then(|| json!({ SERVER_INFO: server_info() }));
    CallResult {
        is_error: answer.is_error,
        content: [Text {
            r#type: "text",
            text: answer.payload,
        }],
        result_type: stateless.then_some("complete"),
        meta: log.map(|log| json!({ LOG: log })).or(server),
    }
}
