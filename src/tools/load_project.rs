//! `load_project`: a dune project's libraries into the session, again after each change.

use std::path::PathBuf;

use serde::Serialize;

use super::report::Printed;
use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::job::LoadProject;

pub const TOOL: Tool = Tool {
    name: "load_project",
    title: "Load a dune project",
    description: "Build a dune project and load its libraries, and the packages that they need, into \
the session; call it again after you have changed the source. Returns {ok, loaded, unchanged, \
stale, dropped}: the units that were linked now and those that were not touched; the session's \
bindings that go on with replaced code (evaluate their phrases again); and those that are gone, \
because a type that they mention has changed (define them again). It has no timeout: cancel stops it. A build that fails is an error with dune's output \
(phase build), and the session stays as it was. topup-opt can load a project, but not a second \
version of it. Example: {\"path\": \"/p\"} gives loaded [\"Geo\", \"Geo__Circle\"].",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: true,
    fields: &[Field {
        name: "path",
        kind: Kind::Text,
        required: false,
        description: "The folder of dune-project [default: the server's current directory].",
    }],
    run,
};

#[derive(Serialize)]
struct ProjectReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    #[serde(flatten)]
    failure: Option<Failure>,
    loaded: Vec<String>,
    unchanged: Vec<String>,
    stale: Vec<String>,
    dropped: Vec<String>,
    #[serde(flatten)]
    printed: Printed,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let folder = folder(call.arguments.text("path").unwrap_or_default())?;
        let turn = call.session.turn(&call.ticket).await?;
        let run = turn.run_within(None, LoadProject { folder }).await?;
        let stopped = run.stop.map(|stop| format!("{stop}\n"));
        let failure = run.result.error.map(|(is_build, text)| {
            let phase = match is_build {
                true => Phase::Build,
                false => Phase::Arguments,
            };
            Failure::new(phase, stopped.unwrap_or_default() + &text)
        });
        let is_error = failure.is_some();
        let report = ProjectReport {
            ok: (!is_error).then_some(true),
            failure,
            loaded: run.result.loaded,
            unchanged: run.result.unchanged,
            stale: run.result.stale,
            dropped: run.result.dropped,
            printed: Printed::new(run.stdout, run.stderr),
        };
        Ok(Answer::new(&report, is_error))
    })
}

/// The folder, without links, as dune names it.
fn folder(path: String) -> Result<String, Failure> {
    let path = match path.is_empty() {
        true => PathBuf::from("."),
        false => PathBuf::from(path),
    };
    let found = path.canonicalize().map_err(|error| {
        let text = format!("load_project: {}: {error}", path.display());
        Failure::new(Phase::Arguments, text)
    })?;
    Ok(found.display().to_string())
}
