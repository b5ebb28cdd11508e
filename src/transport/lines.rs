//! Bytes into messages, one a line.

use serde_json::Value;

/// One line of input.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// As it came.
    pub line: Vec<u8>,
    /// The JSON value that it is, or why it is none.
    pub content: Result<Value, BadLine>,
}

/// A line that is not a message.
#[derive(Debug, Clone, PartialEq)]
pub enum BadLine {
    /// Not JSON; the parser's words.
    Syntax(String),
    /// Longer than this many bytes; it was skipped.
    TooLong(usize),
}

/// The longest line that is taken for a message.
pub const MAX_LINE: usize = 256 << 20;

/// So much memory is kept for the lines to come.
const KEPT: usize = 1 << 20;

/// Collects bytes until lines are complete. Nothing that was pushed is dropped, but for
/// lines that are too long.
#[derive(Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins; what is before it has come out.
    begin: usize,
    /// Up to where there is no line break behind `begin`.
    scanned: usize,
    /// Inside a line that is too long.
    skipping: bool,
}

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete message; blank lines are none.
    pub fn next_message(&mut self) -> Option<Message> {
        loop {
            let Some(length) = self.bytes[self.scanned..]
                .iter()
                .position(|byte| *byte == b'\n')
            else {
                // Once for all lines that were there: many may have come at once.
                self.bytes.drain(..self.begin);
                if self.bytes.len() < KEPT {
                    self.bytes.shrink_to(KEPT);
                }
                (self.begin, self.scanned) = (0, self.bytes.len());
                return self.overlong();
            };
            let end = self.scanned + length + 1;
            let begin = std::mem::replace(&mut self.begin, end);
            self.scanned = end;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if let Some(message) = parse(self.bytes[begin..end].to_vec()) {
                return Some(message);
            }
        }
    }

    /// How much was pushed that is in no message yet.
    pub fn length(&self) -> usize {
        self.bytes.len() - self.begin
    }

    /// What was pushed and has not come out yet.
    pub fn rest(&mut self) -> Vec<u8> {
        let begin = std::mem::take(&mut self.begin);
        self.scanned = 0;
        std::mem::take(&mut self.bytes).split_off(begin)
    }

    /// What is left when the input has ended: a last line may lack its line break.
    pub fn finish(&mut self) -> Option<Message> {
        let rest = self.rest();
        if self.skipping { None } else { parse(rest) }
    }

    fn overlong(&mut self) -> Option<Message> {
        if self.bytes.len() <= MAX_LINE && !self.skipping {
            return None;
        }
        self.bytes = Vec::new();
        self.scanned = 0;
        let first = !std::mem::replace(&mut self.skipping, true);
        first.then(|| Message {
            line: Vec::new(),
            content: Err(BadLine::TooLong(MAX_LINE)),
        })
    }
}

/// Reads a line; `None` if it is blank.
pub fn parse(line: Vec<u8>) -> Option<Message> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let content = serde_json::from_slice(&line);
    Some(Message {
        line,
        content: content.map_err(|error| BadLine::Syntax(error.to_string())),
    })
}
