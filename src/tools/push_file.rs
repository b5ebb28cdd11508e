//! `push_file`: a file from this machine to another.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::blobs::{Sent, apart, encode, failed};
use super::start_session::{HOST, host};
use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::transfer::{self, Blob};

pub const TOOL: Tool = Tool {
    name: "push_file",
    title: "Copy a file to a host",
    description: "Copy a file from this machine to a remote host that start_session has connected; use \
it for sources, data and compiled code that load is to find there. Without remote_path it goes to the \
host's folder of transfers (~/.topup/xfer) under its own name. Replaces what is there, whole or not at \
all; keeps the mode; ~ is resolved on each side. A file has at most TOPUP_XFER_MAX_BYTES (16 MiB). Returns \
{remote_path, bytes}; a failure has phase transfer. Example: {\"host\": \"box\", \"local_path\": \
\"/p/geo.cma\"} gives remote_path \"/home/me/.topup/xfer/geo.cma\".",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: false,
    fields: &[
        HOST,
        Field {
            name: "local_path",
            kind: Kind::Text,
            required: true,
            description: "The file on this machine.",
        },
        Field {
            name: "remote_path",
            kind: Kind::Text,
            required: false,
            description: "Where it goes on the host, in a folder that is there [default: the host's folder of transfers].",
        },
    ],
    run,
};

#[derive(Serialize)]
struct PushReport {
    remote_path: PathBuf,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let host = host(&mut call)?;
        let local = call.arguments.required("local_path");
        let remote = call.arguments.text("remote_path");
        // What is copied is the file as it is when the call's turn has come.
        let place = host.place(TOOL.name, &call.ticket).await?;
        let theirs = place.transfer_max();
        let ours = call.hosts.transfer().max;
        let path = transfer::resolve(&local).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        let (bytes, mode, data) = apart(move || {
            let (max, limit) = match theirs < ours {
                true => (theirs, "there"),
                false => (ours, "here"),
            };
            let Blob { bytes, mode } = transfer::read(&path, max, limit)?;
            Ok((bytes.len(), mode, encode(&bytes)))
        })
        .await?;
        let arguments = json!({ "path": remote, "name": name, "bytes": bytes, "mode": mode });
        let Value::Object(mut arguments) = arguments else {
            return Err(failed("it has no arguments".into()));
        };
        arguments.insert("data".into(), Value::String(data));
        let ticket = &call.ticket;
        let answer = host
            .call_from(place, "_send_blob", arguments, ticket)
            .await?;
        let Sent { path } = answered(host.name(), &answer)?;
        let report = PushReport {
            remote_path: path,
            bytes,
            notice: host.notice(ticket),
        };
        Ok(Answer::new(&report, false))
    })
}

/// What a host has answered, or what went wrong there.
pub fn answered<'a, T: serde::Deserialize<'a>>(
    host: &str,
    answer: &'a Answer,
) -> Result<T, Failure> {
    if answer.is_error {
        let payload: Map<String, Value> = serde_json::from_str(&answer.payload).unwrap_or_default();
        let text = payload.get("error").and_then(Value::as_str);
        return Err(failed(format!("{host}: {}", text.unwrap_or("it failed"))));
    }
    serde_json::from_str(&answer.payload).map_err(|error| {
        let problem = format!("{host}: its answer makes no sense: {error}");
        Failure::new(Phase::Handshake, problem)
    })
}
