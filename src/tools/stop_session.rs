//! `stop_session`: ends the connection to another machine.

use serde::Serialize;

use super::start_session::HOST;
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "stop_session",
    title: "Disconnect from a remote host",
    description: "End the connection to a remote host; use it when the work there is done. The toplevel \
there goes on, and start_session finds its bindings again, unless you pass end. Returns {stopped}: \
false when it was not connected. Example: {\"host\": \"box\", \"end\": true} gives {\"stopped\": true}.",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: false,
    fields: &[
        HOST,
        Field {
            name: "end",
            kind: Kind::Flag,
            required: false,
            description: "Also end the toplevel there.",
        },
        Field {
            name: "forget",
            kind: Kind::Flag,
            required: false,
            description: "Also remove it from the hosts that are known.",
        },
    ],
    run,
};

#[derive(Serialize)]
struct StoppedReport {
    stopped: bool,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let host = call.arguments.required("host");
        let [forget, end] = ["forget", "end"].map(|name| call.arguments.flag(name));
        let stopped = call.hosts.stop(&host, forget, end, &call.ticket).await?;
        Ok(Answer::new(&StoppedReport { stopped }, false))
    })
}
