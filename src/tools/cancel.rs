//! `cancel`: stops the evaluation that runs.

use serde::Serialize;

use super::{Answer, Call, Hints, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "cancel",
    title: "Cancel the running evaluation",
    description: "Interrupt the evaluation that is running now; use it when another call takes \
too long. Returns {cancelled}: false when nothing was running. The interrupted call answers with \
an error that begins with \"evaluation timed out\" and says that it was cancelled; the session keeps \
its bindings. A session that is being started is not started then. It never waits its turn. \
Example: {} gives {\"cancelled\": true}.",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: true,
    },
    routed: true,
    fields: &[],
    run,
};

#[derive(Serialize)]
struct Cancelled {
    cancelled: bool,
}

fn run(call: Call) -> Running {
    Box::pin(async move { Ok(cancelled(call.session.cancel())) })
}

/// The answer to `cancel`.
pub fn cancelled(cancelled: bool) -> Answer {
    Answer::new(&Cancelled { cancelled }, false)
}
