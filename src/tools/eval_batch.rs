//! `eval_batch`: several sources, one call.

use serde::Serialize;

use super::eval::TIMEOUT;
use super::report::Report;
use super::{Answer, Call, Field, Hints, Kind, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "eval_batch",
    title: "Evaluate several sources",
    description: "Evaluate a list of OCaml sources in order, each as eval would; use it for many \
small steps in one call. Returns {results, stopped_on_error}: one eval result for each source \
that ran, up to and including the first with an error. Bindings of earlier elements are visible \
to later ones and stay. The timeout is for each element. Example: {\"sources\": [\"let x = 1\", \
\"x + 1\"]} gives results with value_repr \"1\" and \"2\" and stopped_on_error false.",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: false,
    },
    routed: true,
    fields: &[
        Field {
            name: "sources",
            kind: Kind::Texts,
            required: true,
            description: "The sources, each one or more phrases.",
        },
        TIMEOUT,
    ],
    run,
};

#[derive(Serialize)]
struct BatchReport {
    results: Vec<Report>,
    stopped_on_error: bool,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let timeout = call.arguments.seconds("timeout");
        let turn = call.session.turn(&call.ticket).await?;
        let mut batch = BatchReport {
            results: Vec::new(),
            stopped_on_error: false,
        };
        for source in call.arguments.texts("sources") {
            let report = Report::new(turn.eval(source, timeout).await?).noticing(&turn);
            batch.stopped_on_error = report.error.is_some();
            batch.results.push(report);
            if batch.stopped_on_error {
                break;
            }
        }
        Ok(Answer::new(&batch, false))
    })
}
