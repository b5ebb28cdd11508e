//! The two directions of a connection to another topup.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Lost;
use crate::mutex::lock;
use crate::transport::{BadLine, Lines};

/// Who waits for a reply, by id.
#[derive(Default)]
pub struct Waiting {
    pub last: u64,
    pub calls: HashMap<u64, Expected>,
    /// Whether a pong is on its way out. It stands for all that are asked for meanwhile: who
    /// does not read them gets no more.
    pong: bool,
    /// Whether anything came since this was looked at.
    pub heard: bool,
    /// Whether too little came.
    pub silent: bool,
    /// What came that no topup says.
    wrong: Option<String>,
}

/// A reply that is to come.
pub struct Expected {
    pub reply: oneshot::Sender<Value>,
    /// So long is what asks for it.
    pub length: usize,
}

/// A line that is to go out.
pub struct Line {
    pub bytes: Vec<u8>,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// It asks for this call.
    Call(u64),
    /// It says that we are alive.
    Pong,
    Other,
}

impl Waiting {
    /// Why there are no more replies.
    pub fn why(&self) -> Lost {
        match &self.wrong {
            Some(wrong) => Lost::Refused(wrong.clone()),
            None if self.silent => Lost::Silent,
            None => Lost::Ended,
        }
    }
}

pub fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Writes what is to go out, until the connection ends.
pub async fn write(
    mut output: OwnedWriteHalf,
    mut lines: mpsc::UnboundedReceiver<Line>,
    waiting: Arc<Mutex<Waiting>>,
    ended: CancellationToken,
) {
    loop {
        let line = tokio::select! {
            _ = ended.cancelled() => return,
            line = lines.recv() => line,
        };
        let Some(Line { bytes, kind }) = line else {
            return;
        };
        // Taken back before its turn came.
        if matches!(kind, Kind::Call(id) if !lock(&waiting).calls.contains_key(&id)) {
            continue;
        }
        let written = tokio::select! {
            _ = ended.cancelled() => return,
            written = output.write_all(&bytes) => written,
        };
        if written.is_err() {
            return ended.cancel();
        }
        if kind == Kind::Pong {
            lock(&waiting).pong = false;
        }
    }
}

/// Gives each reply to who waits for it, until there are no more.
pub async fn read(
    mut input: OwnedReadHalf,
    waiting: &Mutex<Waiting>,
    lines: &mpsc::UnboundedSender<Line>,
) {
    let mut unread = Lines::default();
    let mut chunk = vec![0; 1 << 18];
    while let Ok(length @ 1..) = input.read(&mut chunk).await {
        lock(waiting).heard = true;
        unread.push(&chunk[..length]);
        while let Some(message) = unread.next_message() {
            let content = match message.content {
                Ok(content) => content,
                Err(bad) => {
                    lock(waiting).wrong = Some(no_message(&message.line, &bad));
                    return;
                }
            };
            match (content["id"].as_u64(), content["method"].as_str()) {
                (Some(id), None) => {
                    if let Some(expected) = lock(waiting).calls.remove(&id) {
                        let _ = expected.reply.send(content);
                    }
                }
                // It asks whether we are alive.
                (_, Some("ping")) if !std::mem::replace(&mut lock(waiting).pong, true) => {
                    let pong = json!({ "jsonrpc": "2.0", "id": content["id"], "result": {} });
                    let bytes = line(&pong);
                    let kind = Kind::Pong;
                    let _ = lines.send(Line { bytes, kind });
                }
                _ => {}
            }
        }
    }
}

fn no_message(line: &[u8], bad: &BadLine) -> String {
    const SHOWN: usize = 80;
    match bad {
        BadLine::TooLong(most) => format!("what came is no message: more than {most} bytes"),
        BadLine::Syntax(_) => {
            let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
            format!("what came is no message: {:?}", text.trim_end())
        }
    }
}
