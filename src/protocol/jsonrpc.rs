//! JSON-RPC 2.0 envelopes. A response is a `Result`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::transport::{BadLine, Message};

/// A request's id: a string or a number, echoed as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(Value);

/// What a line turned out to be.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    Request {
        id: Id,
        method: String,
        params: Map<String, Value>,
    },
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// Several at once, none of them a batch itself.
    Batch(Vec<Message>),
    /// To be answered with an error; the id only if it could be read.
    Bad { id: Option<Id>, fault: Fault },
    /// Something that must not be answered: a response, or a malformed notification.
    Ignored,
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Fault {
    pub fn parse(reason: &str) -> Fault {
        Fault::new(-32700, format!("not JSON: {reason}"))
    }

    pub fn invalid_request(reason: impl Into<String>) -> Fault {
        Fault::new(-32600, reason)
    }

    pub fn unknown_method(method: &str) -> Fault {
        Fault::new(-32601, format!("unknown method {method:?}"))
    }

    pub fn invalid_params(reason: impl Into<String>) -> Fault {
        Fault::new(-32602, reason)
    }

    /// Our own.
    pub fn internal(reason: impl Into<String>) -> Fault {
        Fault::new(-32603, reason)
    }

    /// A revision that is not served; the client may pick one that is.
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Fault {
        let message = match supported.contains(&requested) {
            true => format!(
                "protocol version {requested:?} is settled by initialize, not by each request"
            ),
            false => format!("protocol version {requested:?} is not supported"),
        };
        Fault {
            data: Some(json!({ "supported": supported, "requested": requested })),
            ..Fault::new(-32022, message)
        }
    }

    fn new(code: i32, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// Reads a message's envelope.
pub fn read(message: Message) -> Incoming {
    match message.content {
        Ok(Value::Object(object)) => envelope(object),
        Ok(Value::Array(messages)) if messages.is_empty() => bad(None, "an empty batch"),
        Ok(Value::Array(messages)) => Incoming::Batch(messages.into_iter().map(member).collect()),
        Ok(_) => bad(None, "a message is a JSON object"),
        Err(BadLine::Syntax(reason)) => Incoming::Bad {
            id: None,
            fault: Fault::parse(&reason),
        },
        Err(BadLine::TooLong(limit)) => {
            bad(None, format!("a message is at most {limit} bytes long"))
        }
    }
}

/// One message of a batch, as if it had come alone. A batch in a batch is none.
fn member(message: Value) -> Message {
    Message {
        line: message.to_string().into_bytes(),
        content: match message {
            Value::Array(_) => Ok(Value::Null),
            message => Ok(message),
        },
    }
}

fn envelope(mut object: Map<String, Value>) -> Incoming {
    let is_response = object.contains_key("result") || object.contains_key("error");
    if is_response && !object.contains_key("method") {
        return Incoming::Ignored;
    }
    let id = match object.remove("id") {
        None => None,
        Some(id @ (Value::String(_) | Value::Number(_))) => Some(Id(id)),
        Some(_) => return bad(None, "id must be a string or a number"),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return bad(id, "jsonrpc must be \"2.0\"");
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return bad(id, "method must be a string");
    };
    let params = match object.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => match id {
            None => return Incoming::Ignored,
            id => {
                return Incoming::Bad {
                    id,
                    fault: Fault::invalid_params("params must be an object"),
                };
            }
        },
    };
    match id {
        Some(id) => Incoming::Request { id, method, params },
        None => Incoming::Notification { method, params },
    }
}

impl Incoming {
    /// Whether it gets a reply.
    pub fn wants_reply(&self) -> bool {
        matches!(self, Incoming::Request { .. } | Incoming::Bad { .. })
    }
}

fn bad(id: Option<Id>, reason: impl Into<String>) -> Incoming {
    Incoming::Bad {
        id,
        fault: Fault::invalid_request(reason),
    }
}

/// The line that answers request `id`.
pub fn reply(id: &Id, result: Result<impl Serialize, Fault>) -> String {
    envelope_of(Some(&id.0), result)
}

/// The line about a message whose id could not be read: with a null for it, or without one.
pub fn complaint(fault: Fault, null_id: bool) -> String {
    envelope_of(null_id.then_some(&Value::Null), Err::<(), _>(fault))
}

fn envelope_of(id: Option<&Value>, result: Result<impl Serialize, Fault>) -> String {
    #[derive(Serialize)]
    struct Envelope<'a, T> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<T>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Fault>,
    }
    let (result, error) = match result {
        Ok(result) => (Some(result), None),
        Err(fault) => (None, Some(fault)),
    };
    serde_json::to_string(&Envelope {
        jsonrpc: "2.0",
        id,
        result,
        error,
    })
    .unwrap_or_else(|error| unreachable!("a reply has string keys only: {error}"))
}

/// `params.requestId` of a cancellation.
pub fn id_of(value: &Value) -> Option<Id> {
    matches!(value, Value::String(_) | Value::Number(_)).then(|| Id(value.clone()))
}
