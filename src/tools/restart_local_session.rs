//! `restart_local_session`: a named session from its beginning.

use super::start_local_session::{SESSION, StartedReport, name};
use super::{Answer, Call, Hints, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "restart_local_session",
    title: "Restart a named session",
    description: "End a named session and its siblings, whatever runs there, and bring them up again \
with the same prewarm, or with what update_local_session has set since; use it when the session hangs \
or is to begin afresh. Its bindings are gone; calls that wait there fail. Returns what start_local_session returns. Example: \
{\"session\": \"data\"} gives started true.",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: false,
    },
    routed: false,
    fields: &[SESSION],
    run,
};

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let session = name(&mut call.arguments)?;
        let started = call.registry.restart(&session, &call.ticket).await?;
        Ok(Answer::new(&StartedReport::new(session, started), false))
    })
}
