//! `eval`: phrases in, what the toplevel says out.

use super::report::Report;
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "eval",
    title: "Evaluate OCaml",
    description: "Evaluate one or more OCaml phrases in the persistent toplevel; use it to run \
code, define things, and look at values. Returns {value_repr, type, stdout, stderr, warnings, \
error} for the last phrase, earlier (what the phrases before it printed), name (of a single let) \
and diagnostics (positions, codes). Bindings stay for later calls; the final ;; is optional; \
phrases run in order up to the first that fails, and a phrase that fails leaves no binding. \
Directives work: #require \"name\" loads an installed package, #show, #use. stdin is empty; exit ends \
the evaluation, not the session. A timeout or cancel stops the phrase and keeps the session; \
without a timeout there is no limit. Example: {\"source\": \"let xs = List.init 3 succ;; List.fold_left (+) 0 xs\"} gives \
value_repr \"6\", type \"int\", earlier [\"val xs : int list = [1; 2; 3]\"].",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: false,
    },
    routed: true,
    fields: &[
        Field {
            name: "source",
            kind: Kind::Text,
            required: true,
            description: "The phrases, separated by ;; where the toplevel needs it.",
        },
        TIMEOUT,
    ],
    run,
};

pub const TIMEOUT: Field = Field {
    name: "timeout",
    kind: Kind::Seconds,
    required: false,
    description: "Seconds (fractions allowed) before the evaluation is interrupted.",
};

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let source = call.arguments.text("source").unwrap_or_default();
        let timeout = call.arguments.seconds("timeout");
        let turn = call.session.turn(&call.ticket).await?;
        let report = Report::new(turn.eval(source, timeout).await?).noticing(&turn);
        Ok(Answer::new(&report, report.error.is_some()))
    })
}
