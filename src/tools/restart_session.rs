//! `restart_session`: the connection to another machine from its beginning.

use super::start_session::{ConnectedReport, HOST, host};
use super::{Answer, Call, Hints, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "restart_session",
    title: "Reconnect to a remote host",
    description: "End the connection to a remote host and bring it up again; use it when calls there \
hang. The toplevel there goes on with its bindings (reset gives a fresh one); if it has ended, another \
one is started, and notice says what was restored from its phrase log. Calls that wait there fail. \
Returns what start_session returns. Example: {\"host\": \"box\"} gives started true.",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: false,
    },
    routed: false,
    fields: &[HOST],
    run,
};

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let host = host(&mut call)?;
        host.restart(&call.ticket.cancel).await?;
        let report = ConnectedReport::new(&host, true, None, &call.ticket);
        Ok(Answer::new(&report, false))
    })
}
