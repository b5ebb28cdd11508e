//! `start_session`: a toplevel on another machine.

use std::sync::Arc;

use serde::Serialize;

use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::router::LOCAL;
use crate::session::{Host, Ticket};

pub const TOOL: Tool = Tool {
    name: "start_session",
    title: "Connect to a remote host",
    description: "Bring up an OCaml toplevel on another machine, over the user's own ssh, and pass its \
name as host to the other tools from then on. host is what ssh takes: a name of ~/.ssh/config, or \
user@machine; ssh must get there without a question, and topup must be installed there. The toplevel \
there outlives the connection: connecting again finds the bindings. Returns {host, remote_socket, \
started}: started is false when it was connected already. On failure phase is connect (ssh's own words) \
or handshake (what is there is no topup of this version). Example: {\"host\": \"box\"} gives \
{\"host\": \"box\", \"remote_socket\": \"/home/me/.topup/sockets/topup.sock\", \"started\": true}.",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: true,
    },
    routed: false,
    fields: &[
        HOST,
        Field {
            name: "remote_socket",
            kind: Kind::Text,
            required: false,
            description: "The socket that topup serves on there, one for each toplevel [default: as last time, or ~/.topup/sockets/topup.sock].",
        },
    ],
    run,
};

pub const HOST: Field = Field {
    name: "host",
    kind: Kind::Text,
    required: true,
    description: "The host, as ssh knows it.",
};

/// The payload of the tools that connect.
#[derive(Serialize)]
pub struct ConnectedReport {
    host: String,
    remote_socket: String,
    started: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

impl ConnectedReport {
    pub fn new(
        host: &Host,
        started: bool,
        warning: Option<String>,
        ticket: &Ticket,
    ) -> ConnectedReport {
        let notices = [warning, host.notice(ticket)];
        let notices: Vec<String> = notices.into_iter().flatten().collect();
        ConnectedReport {
            host: host.name().to_string(),
            remote_socket: host.socket(),
            started,
            notice: (!notices.is_empty()).then(|| notices.join("\n")),
        }
    }
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let name = call.arguments.required("host");
        let socket = call.arguments.text("remote_socket");
        let (host, started, warning) = call.hosts.start(&name, socket, &call.ticket).await?;
        let report = ConnectedReport::new(&host, started, warning, &call.ticket);
        Ok(Answer::new(&report, false))
    })
}

/// The registered host that a call is about.
pub fn host(call: &mut Call) -> Result<Arc<Host>, Failure> {
    let name = call.arguments.required("host");
    if name == LOCAL {
        let problem = "host \"local\" is this machine; name a remote one";
        return Err(Failure::new(Phase::Route, problem));
    }
    call.hosts.find(&name)
}
