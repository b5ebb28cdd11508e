//! `typecheck`: the types of code that is not run.

use serde::Serialize;

use super::report::{DiagnosticReport, Printed, diagnostic, explain};
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};
use crate::evaluator::Run;
use crate::job::Typecheck;
use crate::query::Typechecked;

pub const TOOL: Tool = Tool {
    name: "typecheck",
    title: "Type-check without running",
    description: "Type-check OCaml phrases in the session without running them and without a trace; \
use it to try out code whose effects you do not want, or to see the type of something. Returns \
{types, warnings, error, diagnostics}: types has the text of each phrase as the toplevel would \
declare it, diagnostics are as in eval. Phrases see the definitions of those before them; the \
first that is rejected ends the check. Directives are not run; notice names them. Example: \
{\"source\": \"let f x = x + 1;; List.map f\"} gives types [\"val f : int -> int\", \
\"- : int list -> int list\"].",
    hints: Hints {
        read_only: true,
        destructive: false,
        idempotent: true,
    },
    routed: true,
    fields: &[Field {
        name: "source",
        kind: Kind::Text,
        required: true,
        description: "The phrases, as for eval.",
    }],
    run,
};

#[derive(Serialize)]
struct TypecheckReport {
    types: Vec<String>,
    warnings: Vec<String>,
    error: Option<String>,
    diagnostics: Vec<DiagnosticReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
    #[serde(flatten)]
    printed: Printed,
}

impl TypecheckReport {
    fn new(run: Run<Typechecked>) -> TypecheckReport {
        let Typechecked {
            mut outcome,
            directives,
        } = run.result;
        if let Some(stop) = run.stop {
            explain(stop, &mut outcome);
        }
        TypecheckReport {
            types: outcome.earlier,
            warnings: outcome.warnings,
            error: outcome.error,
            diagnostics: outcome.diagnostics.into_iter().map(diagnostic).collect(),
            notice: notice(&directives),
            printed: Printed::new(run.stdout, run.stderr),
        }
    }
}

fn notice(directives: &[String]) -> Option<String> {
    let names: Vec<_> = directives.iter().map(|name| format!("#{name}")).collect();
    let are = if names.len() == 1 { "was" } else { "were" };
    (!names.is_empty()).then(|| format!("{} {are} not run", names.join(", ")))
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let source = call.arguments.text("source").unwrap_or_default();
        let turn = call.session.turn(&call.ticket).await?;
        let report = TypecheckReport::new(turn.run(Typecheck { source }).await?);
        Ok(Answer::new(&report, report.error.is_some()))
    })
}
