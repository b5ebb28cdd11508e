//! A session under test, whatever the way to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{self, Client, Executable};

/// A session in a process of its own. What it is reached by is known here alone.
pub struct Session {
    pub client: Client,
    pub executable: Executable,
    pub kind: Kind,
    /// Where the server's own files are, unless it shares them.
    home: Option<TempDir>,
}

/// What a session is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The local one of a server on stdin and stdout.
    Stdio,
    /// The local one of a server on a socket.
    Socket,
    /// A named one of a server on stdin and stdout.
    Named,
}

/// Runs a test in a fresh local session of each executable.
pub fn each(test: impl Fn(Session)) {
    support::each(|executable| test(Session::start(executable)));
}

/// Runs a test in a fresh session of each kind.
pub fn each_kind(test: impl Fn(Session)) {
    for kind in [Kind::Stdio, Kind::Socket, Kind::Named] {
        support::each(|executable| test(Session::of(kind, executable)));
    }
}

const NAME: &str = "named";

impl Session {
    pub fn start(executable: Executable) -> Session {
        Session::with(executable, &[])
    }

    fn of(kind: Kind, executable: Executable) -> Session {
        let home = tempfile::tempdir().expect("a folder");
        let at_home = |command: &mut Command| {
            command.env("HOME", home.path());
        };
        let mut client = match kind {
            Kind::Socket => {
                let path = home.path().join("topup.sock");
                Client::start_on_socket(executable, &path, at_home)
            }
            _ => Client::start_with(executable, at_home),
        };
        if kind == Kind::Named {
            let (reply, is_error) = client.call("start_local_session", json!({ "session": NAME }));
            assert!(!is_error, "{reply}");
        }
        Session {
            client,
            executable,
            kind,
            home: Some(home),
        }
    }

    /// With variables of the environment.
    pub fn with(executable: Executable, variables: &[(&str, &str)]) -> Session {
        let client = Client::start_with(executable, |command| {
            command.envs(variables.iter().copied());
        });
        Session {
            client,
            executable,
            kind: Kind::Stdio,
            home: None,
        }
    }

    /// For messages.
    pub fn describe(&self) -> String {
        format!("{} {:?}", self.executable.variant, self.kind)
    }

    pub fn eval(&mut self, source: &str) -> Value {
        self.call(json!({ "source": source }))
    }

    pub fn eval_within(&mut self, source: &str, seconds: f64) -> Value {
        self.call(json!({ "source": source, "timeout": seconds }))
    }

    fn call(&mut self, mut arguments: Value) -> Value {
        if self.kind == Kind::Named {
            arguments["session"] = NAME.into();
        }
        self.client.call("eval", arguments).0
    }

    pub fn reset(&mut self) {
        self.client.call("reset", json!({}));
    }

    /// Evaluates what a test takes for granted.
    pub fn prepare(&mut self, source: &str) {
        let reply = self.eval(source);
        assert!(reply["error"].is_null(), "{source}: {reply}");
    }

    /// Loads `Harm`: see `harm.ml`.
    pub fn load_harm(&mut self) {
        let (folder, archive) = (harm().display(), self.executable.archive("harm"));
        self.prepare(&format!("#directory \"{folder}\";; #load \"{archive}\""));
    }

    /// The process of the server.
    pub fn pid(&self) -> u32 {
        self.client.child.id()
    }

    /// How many descriptors it has.
    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid());
        fs::read_dir(folder).expect("a process").count()
    }

    /// The children that it has and has not waited for.
    pub fn children(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a process");
        let of_task = |task: PathBuf| fs::read_to_string(task.join("children")).unwrap_or_default();
        let all = tasks.map(|task| of_task(task.expect("a task").path()));
        all.flat_map(|list| {
            list.split_whitespace()
                .map(str::to_string)
                .collect::<Vec<_>>()
        })
        .collect()
    }

    /// Ends the connection: nothing more is said, and the process ends as it should.
    pub fn end(mut self) {
        if self.kind == Kind::Socket {
            self.client.signal("TERM");
        }
        let (rest, status) = self.client.finish();
        assert!(rest.is_empty() && status.success(), "{status}: {rest:?}");
        drop(self.home.take());
    }
}

/// The folder of the library `Harm`, which is built once.
fn harm() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("harm");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let (c, ml) = (include_str!("harm.c"), include_str!("harm.ml"));
        support::library_with_stubs(&folder, "harm", c, ml);
        folder
    })
}
