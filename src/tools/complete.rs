//! `complete`: what can be written at a place.

use serde::Serialize;

use super::report::Printed;
use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::job::Complete;
use crate::query::Completion;

pub const TOOL: Tool = Tool {
    name: "complete",
    title: "Complete a name",
    description: "List what can be written at a place of an OCaml source in the session: values, \
constructors, types, modules, record fields after r., methods after obj#, labels after ~, directives \
after #; use it to find out what a module or object offers. Returns {start_column, prefix, \
completions: [{name, kind, type}], total}: what the expression, the source and the session define \
comes first, and start_column (on the same line) is where prefix begins. Phrases of the source \
before the place count and are not run. Nothing is completed in strings and comments. Example: \
{\"source\": \"List.fold_le\"} gives start_column 5, prefix \"fold_le\" and completions \
[{\"name\": \"fold_left\", \"kind\": \"value\", \"type\": \"('acc -> 'a -> 'acc) -> 'acc -> 'a list -> 'acc\"}, …].",
    hints: Hints {
        read_only: true,
        destructive: false,
        idempotent: true,
    },
    routed: true,
    fields: &[
        Field {
            name: "source",
            kind: Kind::Text,
            required: true,
            description: "The code, finished or not.",
        },
        Field {
            name: "line",
            kind: Kind::Count,
            required: false,
            description: "Line of the place, from 1 [default: the last].",
        },
        Field {
            name: "column",
            kind: Kind::Count,
            required: false,
            description: "Column of the place, in characters from 0 [default: the end of the line].",
        },
        Field {
            name: "limit",
            kind: Kind::Count,
            required: false,
            description: "At most so many completions [default: 100].",
        },
    ],
    run,
};

const LIMIT: usize = 100;

#[derive(Serialize)]
struct CompleteReport {
    start_column: usize,
    prefix: String,
    completions: Vec<CompletionReport>,
    total: usize,
    /// Why the list is not whole, when it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    printed: Printed,
}

#[derive(Serialize)]
struct CompletionReport {
    name: String,
    kind: String,
    r#type: Option<String>,
}

/// The offset in bytes of a place in `source`.
fn offset(source: &str, line: Option<usize>, column: Option<usize>) -> Result<usize, String> {
    let mut lines = source.split('\n');
    let text = match line {
        None => lines.next_back(),
        Some(line) => line.checked_sub(1).and_then(|before| lines.nth(before)),
    };
    let Some(text) = text else {
        let count = source.split('\n').count();
        return Err(format!(
            "line must be from 1 to {count}, the last of the source"
        ));
    };
    let begin = text.as_ptr() as usize - source.as_ptr() as usize;
    let Some(column) = column else {
        return Ok(begin + text.len());
    };
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(column).map(|at| begin + at).ok_or_else(|| {
        let count = text.chars().count();
        format!("column must be from 0 to {count}, the end of its line")
    })
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let source = call.arguments.text("source").unwrap_or_default();
        let [line, column, limit] = ["line", "column", "limit"].map(|n| call.arguments.count(n));
        let place = offset(&source, line, column)
            .map_err(|text| Failure::new(Phase::Arguments, format!("complete: {text}")))?;
        let turn = call.session.turn(&call.ticket).await?;
        let run = turn
            .run(Complete {
                source: source.clone(),
                offset: place,
                limit: limit.unwrap_or(LIMIT),
            })
            .await?;
        let found = run.result;
        let before = source.get(..found.start).unwrap_or_default();
        let stopped = run.stop.filter(|_| found.interrupted);
        let report = CompleteReport {
            start_column: before.chars().rev().take_while(|c| *c != '\n').count(),
            prefix: found.prefix,
            completions: found.shown.into_iter().map(report).collect(),
            total: found.total,
            error: stopped.map(|stop| stop.to_string()),
            printed: Printed::new(run.stdout, run.stderr),
        };
        Ok(Answer::new(&report, report.error.is_some()))
    })
}

fn report(completion: Completion) -> CompletionReport {
    CompletionReport {
        name: completion.name,
        kind: completion.kind,
        r#type: completion.typ,
    }
}
