//! The tools as `tools/list` describes them.

use serde_json::{Value, json};

use super::{ALL, Tool, arguments};
use crate::protocol::revision::Revision;

/// The `tools` array of `tools/list`, with what the revision knows.
pub fn descriptors(revision: Revision) -> Vec<Value> {
    ALL.iter().map(|tool| descriptor(tool, revision)).collect()
}

fn descriptor(tool: &Tool, revision: Revision) -> Value {
    let mut descriptor = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": arguments::schema(tool),
    });
    if revision.has_titles() {
        descriptor["title"] = tool.title.into();
    }
    if revision.has_annotations() {
        descriptor["annotations"] = json!({
            "title": tool.title,
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": !tool.hints.read_only,
        });
    }
    descriptor
}
