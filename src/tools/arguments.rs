//! A tool's arguments: the schema that clients see and the check that holds them to it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Failure, Phase, Tool};
use crate::settings;

/// One argument of a tool.
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    Texts,
    /// A time limit: a number above 0.
    Seconds,
    Flag,
    /// A whole number of at least 0.
    Count,
}

/// The fields that every routed tool takes besides its own.
pub const ROUTE: [Field; 2] = [
    Field {
        name: "session",
        kind: Kind::Text,
        required: false,
        description: "The named session that this is for (see list_sessions) [default: \"local\", the toplevel in the server's own process].",
    },
    Field {
        name: "host",
        kind: Kind::Text,
        required: false,
        description: "The remote host that this is for, which start_session has connected; excludes session [default: \"local\", this machine].",
    },
];

impl Kind {
    fn schema(self) -> Map<String, Value> {
        let schema = match self {
            Kind::Text => json!({ "type": "string" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Seconds => json!({ "type": "number", "exclusiveMinimum": 0 }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    fn wants(self) -> &'static str {
        match self {
            Kind::Text => "a string",
            Kind::Texts => "an array of strings",
            Kind::Seconds => "a number of seconds above 0",
            Kind::Flag => "true or false",
            Kind::Count => "a whole number of at least 0",
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Kind::Text => value.is_string(),
            Kind::Texts => value
                .as_array()
                .is_some_and(|items| items.iter().all(Value::is_string)),
            Kind::Seconds => value.as_f64().is_some_and(|s| settings::timeout(s).is_ok()),
            Kind::Flag => value.is_boolean(),
            Kind::Count => value.is_u64(),
        }
    }
}

/// All fields of a tool, its own first.
pub fn fields(tool: &Tool) -> impl Iterator<Item = &Field> {
    let route: &[Field] = if tool.routed { &ROUTE } else { &[] };
    tool.fields.iter().chain(route)
}

/// The JSON schema of a tool's arguments: a plain closed object.
pub fn schema(tool: &Tool) -> Value {
    let property = |field: &Field| {
        let mut schema = field.kind.schema();
        schema.insert("description".into(), field.description.into());
        (field.name.to_string(), Value::Object(schema))
    };
    let properties: Map<String, Value> = fields(tool).map(property).collect();
    let required: Vec<_> = fields(tool)
        .filter(|f| f.required)
        .map(|f| f.name)
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Arguments that satisfy their tool's schema.
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Holds `arguments` to the tool's schema; the failure names the field. An argument
    /// that is null counts as left out.
    pub fn check(tool: &Tool, arguments: Map<String, Value>) -> Result<Arguments, Failure> {
        let failure = |text| Err(Failure::new(Phase::Arguments, text));
        for (name, value) in &arguments {
            let Some(field) = fields(tool).find(|field| field.name == name) else {
                let known: Vec<_> = fields(tool).map(|field| field.name).collect();
                let known = known.join(", ");
                return failure(format!(
                    "{}: unknown argument {name:?}; it takes {known}",
                    tool.name
                ));
            };
            if !value.is_null() && !field.kind.accepts(value) {
                let wants = field.kind.wants();
                return failure(format!(
                    "{}: {name} must be {wants}, not {}",
                    tool.name,
                    short(value)
                ));
            }
        }
        let missing =
            |field: &&Field| field.required && arguments.get(field.name).is_none_or(Value::is_null);
        if let Some(Field { name, kind, .. }) = fields(tool).find(missing) {
            return failure(format!(
                "{}: {name} is missing; give {}",
                tool.name,
                kind.wants()
            ));
        }
        Ok(Arguments(arguments))
    }

    /// Takes a text out that must be there.
    pub fn required(&mut self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    /// Takes a text out.
    pub fn text(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Takes a text out that clients read when they connect.
    pub fn description(&mut self, name: &str) -> Result<Option<String>, Failure> {
        const LONGEST: usize = 1000;
        let text = self.text(name);
        match text.as_deref().map_or(0, |text| text.chars().count()) {
            0..=LONGEST => Ok(text),
            length => Err(Failure::new(
                Phase::Arguments,
                format!("{name} has {length} characters; it may have {LONGEST}"),
            )),
        }
    }

    /// Takes a list of texts out.
    pub fn texts(&mut self, name: &str) -> Vec<String> {
        match self.0.remove(name) {
            Some(Value::Array(items)) => items
                .into_iter()
                .filter_map(|item| Some(item.as_str()?.to_string()))
                .collect(),
            _ => Vec::new(),
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn count(&self, name: &str) -> Option<usize> {
        self.0.get(name)?.as_u64().map(|count| count as usize)
    }

    pub fn seconds(&self, name: &str) -> Option<Duration> {
        settings::timeout(self.0.get(name)?.as_f64()?).ok()
    }
}

impl From<Arguments> for Map<String, Value> {
    fn from(arguments: Arguments) -> Map<String, Value> {
        arguments.0
    }
}

/// A value as an error message shows it.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
