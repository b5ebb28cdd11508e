//! The plain toplevel of the same OCaml.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The plain toplevel, fed like a terminal would.
pub struct Plain {
    pub child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Plain {
    pub fn start(peer: &Path) -> Plain {
        let mut child = Command::new(peer)
            .args(["-noprompt", "-noinit", "-nopromptcont", "-no-version"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Plain {
            child,
            input,
            output,
        }
    }

    pub fn eval(&mut self, phrase: &str) {
        self.input
            .write_all(format!("{phrase}\n").as_bytes())
            .expect("written");
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            assert!(
                self.output.read_line(&mut line).expect("readable") > 0,
                "the peer ended"
            );
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
