//! `load`: compiled code into the session.

use std::path::Path;

use serde::Serialize;

use super::report::Printed;
use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::job::Load;

pub const TOOL: Tool = Tool {
    name: "load",
    title: "Load compiled code",
    description: "Link a compiled OCaml library into the session and run its initialisers; use it \
for a single compiled file; for a dune project use load_project, for installed packages #require \
in eval. The \
topup server takes .cma and .cmo, topup-opt takes .cmxs, .cmxa and .cmx. The file's folder joins the \
load path, and dune's folder of its interfaces. Returns {ok, modules}: the units, which later phrases can \
name. Libraries that it needs must be loaded before. Loading again runs it again (topup-opt: does \
nothing if it is the same code, and fails if it is not). Loaded files are not in the phrase log: \
load them again after reset or restore. Example: \
{\"path\": \"/p/_build/default/src/geo.cma\"} gives modules [\"Geo\"].",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: false,
    },
    routed: true,
    fields: &[Field {
        name: "path",
        kind: Kind::Text,
        required: true,
        description: "The file, as an absolute path.",
    }],
    run,
};

#[derive(Serialize)]
struct LoadReport {
    ok: bool,
    modules: Vec<String>,
    #[serde(flatten)]
    printed: Printed,
}

/// A failure after user code had its say.
fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let path = call.arguments.text("path").unwrap_or_default();
        check(&path)?;
        let turn = call.session.turn(&call.ticket).await?;
        let run = turn.run(Load { path }).await?;
        let printed = Printed::new(run.stdout, run.stderr);
        Ok(match run.result {
            Ok(modules) => {
                let ok = true;
                Answer::new(
                    &LoadReport {
                        ok,
                        modules,
                        printed,
                    },
                    false,
                )
            }
            Err(error) => {
                let stopped = run.stop.map(|stop| format!("{stop}\n"));
                let error = stopped.unwrap_or_default() + &error;
                Answer::new(&Failure::new(Phase::Arguments, error).beside(printed), true)
            }
        })
    })
}

fn check(path: &str) -> Result<(), Failure> {
    if Path::new(path).is_absolute() {
        return Ok(());
    }
    let hint = match std::path::absolute(path) {
        Ok(here) => format!(
            "; in the server's own folder that would be {}",
            here.display()
        ),
        Err(_) => String::new(),
    };
    let error = format!("load: path must be absolute, not {path:?}{hint}");
    Err(Failure::new(Phase::Arguments, error))
}
