//! `pull_file`: a file from another machine to this one.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::blobs::{Received, apart, decode, failed};
use super::push_file::answered;
use super::start_session::{HOST, host};
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};
use crate::transfer::{self, Blob};

pub const TOOL: Tool = Tool {
    name: "pull_file",
    title: "Copy a file from a host",
    description: "Copy a file from a remote host that start_session has connected to this machine; use \
it for results. Without local_path it goes to this machine's folder of transfers (~/.topup/xfer) under \
its own name. Replaces what is there, whole or not at all; keeps the mode; ~ is resolved on each side. A \
file has at most TOPUP_XFER_MAX_BYTES (16 MiB). Returns {local_path, bytes}; a failure has phase \
transfer. Example: {\"host\": \"box\", \"remote_path\": \"~/result.csv\"} gives local_path \
\"/home/me/.topup/xfer/result.csv\".",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: false,
    fields: &[
        HOST,
        Field {
            name: "remote_path",
            kind: Kind::Text,
            required: true,
            description: "The file on the host.",
        },
        Field {
            name: "local_path",
            kind: Kind::Text,
            required: false,
            description: "Where it goes on this machine, in a folder that is there [default: this machine's folder of transfers].",
        },
    ],
    run,
};

#[derive(Serialize)]
struct PullReport {
    local_path: PathBuf,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let host = host(&mut call)?;
        let remote = call.arguments.required("remote_path");
        let settings = call.hosts.transfer().clone();
        let local = match call.arguments.text("local_path") {
            Some(path) => transfer::resolve(&path),
            None => transfer::default_path(&settings, &remote, "local_path"),
        };
        let local_path = local.map_err(failed)?;
        let Value::Object(arguments) = json!({ "path": remote, "max": settings.max }) else {
            return Err(failed("it has no arguments".into()));
        };
        let place = host.place(TOOL.name, &call.ticket).await?;
        let ticket = &call.ticket;
        let answer = host
            .call_from(place, "_recv_blob", arguments, ticket)
            .await?;
        let (name, path) = (host.name().to_string(), local_path.clone());
        let cancel = call.ticket.cancel.clone();
        let answered: Result<Received, _> = answered(&name, &answer);
        let Received { mode, data } = answered?;
        let bytes = apart(move || {
            let bytes = decode(&data)?;
            transfer::fits(&path, bytes.len() as u64, settings.max, "here")?;
            let length = bytes.len();
            transfer::write(&path, &Blob { bytes, mode }, &cancel)?;
            Ok(length)
        })
        .await?;
        let report = PullReport {
            local_path,
            bytes,
            notice: host.notice(ticket),
        };
        Ok(Answer::new(&report, false))
    })
}
