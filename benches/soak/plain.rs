//! The plain toplevel of the same OCaml, fed with the same phrases.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::support;

pub struct Plain {
    child: Child,
    input: ChildStdin,
    /// The numbers that it was told to say.
    said: mpsc::Receiver<usize>,
    fed: usize,
    /// Megabytes when it had begun.
    before: f64,
}

/// Phrases after which it is waited for.
const AHEAD: usize = 200;
/// Phrases after which its size is the one that growth begins from.
const WARM: usize = 50;
const MARK: &str = "so far: ";

impl Plain {
    pub fn start(peer: &Path) -> Plain {
        let mut child = Command::new(peer)
            .args(["-noprompt", "-noinit", "-nopromptcont", "-no-version"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer starts");
        let input = child.stdin.take().expect("piped");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let (tell, said) = mpsc::channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while output
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                let text = String::from_utf8_lossy(&line);
                if let Some((_, number)) = text.split_once(MARK) {
                    let _ = tell.send(number.trim().parse().expect("a number"));
                }
                line.clear();
            }
        });
        Plain {
            child,
            input,
            said,
            fed: 0,
            before: 0.0,
        }
    }

    pub fn feed(&mut self, source: &str) {
        self.write(&format!("{source};;\n"));
        self.fed += 1;
        if self.fed == WARM {
            self.wait();
            self.before = self.resident();
        }
        if self.fed.is_multiple_of(AHEAD) {
            self.wait();
        }
    }

    /// Megabytes in memory.
    pub fn resident(&self) -> f64 {
        support::resident(self.child.id())
    }

    /// How many megabytes it has grown by.
    pub fn growth(&mut self) -> f64 {
        self.wait();
        self.resident() - self.before
    }

    fn wait(&mut self) {
        let number = self.fed;
        self.write(&format!("print_endline \"\\n{MARK}{number}\";;\n"));
        while self.said.recv().expect("the peer goes on") != number {}
    }

    fn write(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("written");
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
