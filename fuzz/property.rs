//! What holds of any input. The fuzz target looks for one of which it does not; tests/it
//! tries it with those that are known.

use serde_json::{Value, json};

use super::jsonrpc::{self, Incoming};
use super::{Lines, Message};

/// The first two bytes say in which portions the others come, and where the process crashes.
pub fn check(input: &[u8]) {
    let [portion, crash, bytes @ ..] = input else {
        return;
    };
    let messages = read(bytes, bytes.len().max(1), usize::MAX);
    let crash = bytes.len() * usize::from(*crash) / 256;
    let in_portions = read(bytes, usize::from(*portion) + 1, crash);
    assert_eq!(messages, in_portions, "portions do not matter");
    let lines = bytes.split(|byte| *byte == b'\n');
    let wanted = lines.filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    assert_eq!(messages.len(), wanted.count(), "one message a line");
    for message in messages {
        envelope(message);
    }
}

/// All messages of `bytes`, of which the next image gets those that the first has not read
/// up to `crash`.
fn read(bytes: &[u8], portion: usize, crash: usize) -> Vec<Message> {
    let mut lines = Lines::default();
    let mut messages = Vec::new();
    let mut pushed = 0;
    for chunk in bytes.chunks(portion) {
        lines.push(chunk);
        let crashes = pushed <= crash && crash < pushed + chunk.len();
        pushed += chunk.len();
        if crashes {
            messages.extend(lines.next_message());
            let rest = lines.rest();
            lines = Lines::default();
            lines.push(&rest);
        }
        while let Some(message) = lines.next_message() {
            messages.push(message);
        }
    }
    messages.extend(lines.finish());
    messages
}

fn envelope(message: Message) {
    let id = match &message.content {
        Ok(Value::Object(object)) => object.get("id").cloned(),
        _ => None,
    };
    match jsonrpc::read(message) {
        Incoming::Batch(members) => {
            assert!(!members.is_empty());
            for member in members {
                let again = serde_json::from_slice::<Value>(&member.line);
                assert!(again.is_ok(), "a member is a line of its own");
                assert!(!member.line.contains(&b'\n'));
                assert!(!matches!(jsonrpc::read(member), Incoming::Batch(_)));
            }
        }
        Incoming::Request { id: echoed, .. } => {
            let reply = line(jsonrpc::reply(&echoed, Ok(json!({}))));
            assert_eq!(
                Some(&reply["id"]),
                id.as_ref(),
                "ids come back as they went"
            );
        }
        Incoming::Bad {
            id: Some(id),
            fault,
        } => {
            let reply = line(jsonrpc::reply(&id, Err::<(), _>(fault)));
            assert!(reply["error"]["code"].is_number());
        }
        Incoming::Bad { id: None, fault } => {
            for null_id in [true, false] {
                let reply = line(jsonrpc::complaint(fault.clone(), null_id));
                assert_eq!(reply.get("id").is_some(), null_id);
            }
        }
        Incoming::Notification { .. } | Incoming::Ignored => {}
    }
}

/// A reply is one line of JSON.
fn line(reply: String) -> Value {
    assert!(!reply.contains('\n'));
    serde_json::from_str(&reply).expect("JSON")
}
