//! `update_host`: what is known of another machine.

use serde::Serialize;
use serde_json::{Map, Value};

use super::start_session::HOST;
use super::{Answer, Arguments, Call, Failure, Field, Hints, Kind, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "update_host",
    title: "Describe a remote host",
    description: "Set the description or the operating system of a remote host that start_session has \
connected once; what you leave out stays. Clients read both when they connect. Returns {host, \
description, os}, which is kept in ~/.topup/hosts.json. Example: {\"host\": \"box\", \"os\": \"Debian 12\"}.",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: true,
    },
    routed: false,
    fields: &[
        HOST,
        Field {
            name: "description",
            kind: Kind::Text,
            required: false,
            description: "What the host is for.",
        },
        Field {
            name: "os",
            kind: Kind::Text,
            required: false,
            description: "What it runs.",
        },
    ],
    run,
};

#[derive(Serialize)]
struct UpdatedReport {
    host: String,
    description: Option<String>,
    os: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

/// Holds an entry of `~/.topup/hosts.json` to the same rules; the error says which one it
/// breaks. Returns description and os.
pub fn check(given: Map<String, Value>) -> Result<[Option<String>; 2], String> {
    let broken = |failure: Failure| failure.rule(&TOOL);
    let mut arguments = Arguments::check(&TOOL, given).map_err(broken)?;
    let description = arguments.description("description").map_err(broken)?;
    let os = arguments.description("os").map_err(broken)?;
    Ok([description, os])
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let host = call.arguments.required("host");
        let description = call.arguments.description("description")?;
        let os = call.arguments.description("os")?;
        let (known, notice) = call.hosts.update(&host, description, os).await?;
        let report = UpdatedReport {
            host,
            description: known.description,
            os: known.os,
            notice,
        };
        Ok(Answer::new(&report, false))
    })
}
