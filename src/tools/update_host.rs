//! `update_host`: what is known of another machine.

use serde::Serialize;

use super::start_session::HOST;
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};

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

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let host = call.arguments.required("host");
        let [description, os] = ["description", "os"].map(|name| call.arguments.text(name));
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
