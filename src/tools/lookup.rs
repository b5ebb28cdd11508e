//! `lookup`: what a name is.

use serde::Serialize;

use super::report::Printed;
use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::job::Lookup;
use crate::query::Definition;

pub const TOOL: Tool = Tool {
    name: "lookup",
    title: "Look up a name",
    description: "Say what one name is: a value, type, constructor, field, module, module type, class \
or exception of the session or of an installed library; use it to read a type, a signature or \
documentation before writing code. Returns {name, kind, type, location, value_preview, doc}, null \
where there is nothing: type is a value's type or else the declaration (of a module its signature), \
location the phrase of the log and the place in the source it came with, or the library's file, \
value_preview at most 200 characters; also lists kind and type of what else has the name. An \
unknown name is an error that names near ones. It runs no code but installed printers. Example: \
{\"name\": \"List.map\"} gives kind \"value\", type \"('a -> 'b) -> 'a list -> 'b list\".",
    hints: Hints {
        read_only: true,
        destructive: false,
        idempotent: true,
    },
    routed: true,
    fields: &[Field {
        name: "name",
        kind: Kind::Text,
        required: true,
        description: "The name, qualified or not, such as fib, List.map, M.t, Not_found or ( + ).",
    }],
    run,
};

#[derive(Serialize)]
struct LookupReport {
    name: String,
    kind: String,
    r#type: Option<String>,
    location: Option<String>,
    value_preview: Option<String>,
    doc: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<AlsoReport>,
    /// Why there is no preview, when its printing was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    printed: Printed,
}

#[derive(Serialize)]
struct AlsoReport {
    kind: String,
    r#type: Option<String>,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let name = call.arguments.text("name").unwrap_or_default();
        let turn = call.session.turn(&call.ticket).await?;
        let run = turn.run(Lookup { name }).await?;
        let about_name = |text| Failure::new(Phase::Arguments, format!("lookup: {text}"));
        let definition = run.result.map_err(about_name)?;
        let stopped = run.stop.filter(|_| definition.interrupted);
        let error = stopped.map(|stop| stop.to_string());
        let report = LookupReport::new(definition, error, Printed::new(run.stdout, run.stderr));
        Ok(Answer::new(&report, report.error.is_some()))
    })
}

impl LookupReport {
    fn new(definition: Definition, error: Option<String>, printed: Printed) -> LookupReport {
        let also = definition.also.into_iter();
        LookupReport {
            name: definition.name,
            kind: definition.kind,
            r#type: some(definition.typ),
            location: definition.location,
            value_preview: definition.value_preview,
            doc: definition.doc,
            also: also
                .map(|(kind, typ)| AlsoReport {
                    kind,
                    r#type: some(typ),
                })
                .collect(),
            error,
            printed,
        }
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
