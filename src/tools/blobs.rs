//! Whole files in messages between two topups: `_send_blob` takes one, `_recv_blob` gives
//! one.

use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::transfer::{self, Blob};

const HINTS: Hints = Hints {
    read_only: false,
    destructive: true,
    idempotent: true,
};

pub const SEND: Tool = Tool {
    name: "_send_blob",
    title: "Write a file",
    description: "Write a file that comes from another machine.",
    hints: HINTS,
    routed: false,
    fields: &[
        Field {
            name: "path",
            kind: Kind::Text,
            required: false,
            description: "Where to.",
        },
        Field {
            name: "name",
            kind: Kind::Text,
            required: false,
            description: "The file's name in the folder of transfers, if there is no path.",
        },
        Field {
            name: "bytes",
            kind: Kind::Count,
            required: true,
            description: "Its size.",
        },
        Field {
            name: "mode",
            kind: Kind::Count,
            required: true,
            description: "Its mode.",
        },
        Field {
            name: "data",
            kind: Kind::Text,
            required: true,
            description: "Its contents in base64.",
        },
    ],
    run: send,
};

pub const RECV: Tool = Tool {
    name: "_recv_blob",
    title: "Read a file",
    description: "Read a file that goes to another machine.",
    hints: HINTS,
    routed: false,
    fields: &[
        Field {
            name: "path",
            kind: Kind::Text,
            required: true,
            description: "The file.",
        },
        Field {
            name: "max",
            kind: Kind::Count,
            required: true,
            description: "What the other machine takes at most, in bytes.",
        },
    ],
    run: recv,
};

/// The payload of `_send_blob`.
#[derive(Serialize, Deserialize)]
pub struct Sent {
    pub path: PathBuf,
}

/// The payload of `_recv_blob`.
#[derive(Serialize, Deserialize)]
pub struct Received {
    pub mode: u32,
    pub data: String,
}

/// A problem with a file.
pub fn failed(problem: String) -> Failure {
    Failure::new(Phase::Transfer, problem)
}

/// Work with files, off the event loop.
pub async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| error.to_string())
        .and_then(|done| done)
        .map_err(failed)
}

/// As it goes into a message.
pub fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// As it comes out of one.
pub fn decode(data: &str) -> Result<Vec<u8>, String> {
    let bytes = BASE64_STANDARD.decode(data);
    bytes.map_err(|error| format!("what arrived is not base64: {error}"))
}

fn send(mut call: Call) -> Running {
    Box::pin(async move {
        let path = call.arguments.text("path");
        let name = call.arguments.required("name");
        let count = |name: &str| call.arguments.count(name).unwrap_or_default();
        let (size, mode) = (count("bytes") as u64, count("mode") as u32);
        let data = call.arguments.required("data");
        let settings = call.hosts.transfer().clone();
        let turn = call.session.turn(&call.ticket).await?;
        let cancel = turn.stop_token();
        let path = apart(move || {
            let path = match path {
                Some(path) => transfer::resolve(&path)?,
                None => transfer::default_path(&settings, &name, "remote_path")?,
            };
            transfer::fits(&path, size, settings.max, "there")?;
            let bytes = decode(&data)?;
            if bytes.len() as u64 != size {
                return Err(format!("{size} bytes were announced, {} came", bytes.len()));
            }
            transfer::write(&path, &Blob { bytes, mode }, &cancel)?;
            Ok(path)
        })
        .await?;
        Ok(Answer::new(&Sent { path }, false))
    })
}

fn recv(mut call: Call) -> Running {
    Box::pin(async move {
        let path = call.arguments.required("path");
        let theirs = call.arguments.count("max").unwrap_or_default() as u64;
        let ours = call.hosts.transfer().max;
        let _turn = call.session.turn(&call.ticket).await?;
        let received = apart(move || {
            let path = transfer::resolve(&path)?;
            let (max, limit) = match ours < theirs {
                true => (ours, "there"),
                false => (theirs, "here"),
            };
            let Blob { bytes, mode } = transfer::read(&path, max, limit)?;
            let data = encode(&bytes);
            Ok(Received { mode, data })
        })
        .await?;
        Ok(Answer::new(&received, false))
    })
}
