//! `list_sessions`: what calls can name.

use serde::Serialize;

use super::{Answer, Call, Hints, Running, Tool};
use crate::session::{HostListed, Listed};

pub const TOOL: Tool = Tool {
    name: "list_sessions",
    title: "List sessions",
    description: "List the named sessions: those that are live and can be passed as session, and \
those that start_local_session would bring up as they were; and the remote hosts, likewise. Returns \
{sessions: [{session, live, busy, pid, prewarm, pool, description}], hosts: [{host, live, description, \
os, remote_socket}]}. The toplevel in the server's own process, \"local\", is always there \
and is not listed. Example: {} gives sessions [{\"session\": \"data\", \"live\": true, …}].",
    hints: Hints {
        read_only: true,
        destructive: false,
        idempotent: true,
    },
    routed: false,
    fields: &[],
    run,
};

#[derive(Serialize)]
struct SessionsReport {
    sessions: Vec<Listed>,
    hosts: Vec<HostListed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn run(call: Call) -> Running {
    Box::pin(async move {
        let sessions = call.registry.list();
        let hosts = call.hosts.list();
        let refused = [call.registry.refused(), call.hosts.refused()].concat();
        let notice = (!refused.is_empty()).then(|| refused.join("\n"));
        let report = SessionsReport {
            sessions,
            hosts,
            notice,
        };
        Ok(Answer::new(&report, false))
    })
}
