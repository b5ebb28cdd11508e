//! Whether a reply's fields say what a block expects.

use serde_json::Value;

/// The block holds the output of each phrase in order, its warnings first; the reply has
/// prints, warnings and stdout apart. They agree if some interleaving of the three, and
/// then the error, is the block.
pub fn agrees(reply: &Value, expected: &str) -> bool {
    let prints = prints(reply);
    let warnings = texts(&reply["warnings"]);
    let stdout = reply["stdout"].as_str().unwrap_or_default();
    let stdout: Vec<String> = stdout.lines().map(squeeze).collect();
    consumes(
        &squeeze(expected),
        &[&prints, &warnings, &stdout],
        &error(reply),
    )
}

fn consumes(rest: &str, queues: &[&[String]; 3], error: &str) -> bool {
    if queues.iter().all(|queue| queue.is_empty()) {
        return rest == error;
    }
    (0..queues.len()).any(|index| {
        let Some((first, later)) = queues[index].split_first() else {
            return false;
        };
        let mut queues = *queues;
        queues[index] = later;
        rest.strip_prefix(first.as_str())
            .is_some_and(|rest| consumes(rest, &queues, error))
    })
}

/// What each phrase printed, the last one put together from its fields.
fn prints(reply: &Value) -> Vec<String> {
    let mut all = texts(&reply["earlier"]);
    let text = |key: &str| reply[key].as_str();
    match (text("value_repr"), text("type"), text("name")) {
        (Some(value), Some(typ), Some(name)) => {
            all.push(squeeze(&format!("val {name} : {typ} = {value}")));
        }
        (Some(value), Some(typ), None) => all.push(squeeze(&format!("- : {typ} = {value}"))),
        (Some(value), _, _) => all.push(squeeze(value)),
        _ => {}
    }
    all.retain(|text| !text.is_empty());
    all
}

/// The error without the backtrace of an exception.
fn error(reply: &Value) -> String {
    let Some(error) = reply["error"].as_str() else {
        return String::new();
    };
    let diagnostics = reply["diagnostics"].as_array();
    let exception = diagnostics
        .into_iter()
        .flatten()
        .find(|d| d["kind"] == "exception");
    squeeze(
        exception
            .and_then(|d| d["message"].as_str())
            .unwrap_or(error),
    )
}

fn texts(array: &Value) -> Vec<String> {
    let items = array.as_array().into_iter().flatten();
    items
        .map(|text| squeeze(text.as_str().unwrap_or_default()))
        .collect()
}

/// Without white space and the `;;` that `blocks` adds; the suite's tool calls the input
/// `""`.
fn squeeze(text: &str) -> String {
    text.replace("//toplevel//", "")
        .replace(";;", "")
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect()
}
