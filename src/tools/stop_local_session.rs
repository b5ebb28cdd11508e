//! `stop_local_session`: ends a named session.

use serde::Serialize;

use super::start_local_session::{SESSION, name};
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "stop_local_session",
    title: "Stop a named session",
    description: "End a named session and its siblings, whatever runs there, also one that is being started; use it when the work is \
done. Its bindings are gone, unless a checkpoint has them; how it was made stays known, so that \
start_local_session brings up another one like it, unless you pass forget. Returns {stopped}: false when it was not \
running. Example: {\"session\": \"data\"} gives {\"stopped\": true}.",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: false,
    fields: &[
        SESSION,
        Field {
            name: "forget",
            kind: Kind::Flag,
            required: false,
            description: "Also remove it from the sessions that are known.",
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
        let session = name(&mut call.arguments)?;
        let forget = call.arguments.flag("forget");
        let stopped = call.registry.stop(&session, forget, &call.ticket).await?;
        Ok(Answer::new(&StoppedReport { stopped }, false))
    })
}
