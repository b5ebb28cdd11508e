//! `reset`: a fresh toplevel.

use serde::Serialize;

use super::report::Printed;
use super::{Answer, Call, Hints, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "reset",
    title: "Start afresh",
    description: "Discard everything that the session has defined and start with a fresh toplevel: \
bindings, types, loaded libraries, printers, the effects of directives; a new phrase log begins. \
Use it when the workspace is beyond repair or another task begins; to go back to a state that was \
good use restore. Returns {ok: true}. Background threads go on. Example: {} gives {\"ok\": true}.",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: true,
    fields: &[],
    run,
};

#[derive(Serialize)]
struct ResetReport {
    ok: bool,
    #[serde(flatten)]
    printed: Printed,
}

fn run(call: Call) -> Running {
    Box::pin(async move {
        let turn = call.session.turn(&call.ticket).await?;
        let run = turn.reset().await?;
        let report = ResetReport {
            ok: true,
            printed: Printed::new(run.stdout, run.stderr),
        };
        Ok(Answer::new(&report, false))
    })
}
