//! `env`: what is bound.

use serde::Serialize;

use super::{Answer, Call, Field, Hints, Kind, Running, Tool};
use crate::job::Env;

pub const TOOL: Tool = Tool {
    name: "env",
    title: "List bindings",
    description: "List the value bindings of the session with their types, in order of definition; \
use it to recall a workspace built up over earlier calls. Returns {bindings: [{name, type}], total}: \
shadowed bindings are left out, and total counts those beyond limit, too. For types and modules use lookup. It runs no code. Example: \
{\"filter\": \"fib\"} gives bindings [{\"name\": \"fib\", \"type\": \"int -> int\"}], total 1.",
    hints: Hints {
        read_only: true,
        destructive: false,
        idempotent: true,
    },
    routed: true,
    fields: &[
        Field {
            name: "filter",
            kind: Kind::Text,
            required: false,
            description: "Only names that contain this text.",
        },
        Field {
            name: "all",
            kind: Kind::Flag,
            required: false,
            description: "Also what the standard library and opened modules bring into scope.",
        },
        Field {
            name: "limit",
            kind: Kind::Count,
            required: false,
            description: "At most so many bindings [default: 500].",
        },
    ],
    run,
};

const LIMIT: usize = 500;

#[derive(Serialize)]
struct EnvReport {
    bindings: Vec<BindingReport>,
    total: usize,
}

#[derive(Serialize)]
struct BindingReport {
    name: String,
    r#type: String,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let filter = call.arguments.text("filter").unwrap_or_default();
        let all = call.arguments.flag("all");
        let limit = call.arguments.count("limit").unwrap_or(LIMIT);
        let turn = call.session.turn(&call.ticket).await?;
        let found = turn.ask(Env { filter, all, limit }).await?;
        let bindings = found.shown.into_iter();
        let report = EnvReport {
            bindings: bindings
                .map(|b| BindingReport {
                    name: b.name,
                    r#type: b.typ,
                })
                .collect(),
            total: found.total,
        };
        Ok(Answer::new(&report, false))
    })
}
