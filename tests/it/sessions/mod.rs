//! Named sessions, with real processes.

mod checkpoints;
mod death;
mod falls;
mod hangs;
mod homeless;
mod pool;
mod recipes;
mod routing;
mod socket;
mod start;
mod storm;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Client, Executable};

/// A server with a home of its own.
struct Server {
    client: Client,
    home: TempDir,
}

impl Server {
    fn start(executable: Executable) -> Server {
        let home = tempfile::tempdir().expect("a folder");
        let client = server_at(executable, home.path());
        Server { client, home }
    }

    /// Starts a session; panics if it does not come up.
    fn session(&mut self, name: &str, mut arguments: Value) -> Value {
        arguments["session"] = name.into();
        let (reply, is_error) = self.client.call("start_local_session", arguments);
        assert!(!is_error, "{reply}");
        reply
    }

    fn eval_in(&mut self, session: &str, source: &str) -> Value {
        let arguments = json!({ "source": source, "session": session });
        self.client.call("eval", arguments).0
    }

    fn value_in(&mut self, session: &str, source: &str) -> Value {
        let reply = self.eval_in(session, source);
        assert!(reply["error"].is_null(), "{reply}");
        reply["value_repr"].clone()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> (Value, bool) {
        self.client.call(tool, arguments)
    }

    /// Calls a tool in a session; panics if that is an error.
    fn call_in(&mut self, session: &str, tool: &str, mut arguments: Value) -> Value {
        arguments["session"] = session.into();
        let (reply, is_error) = self.client.call(tool, arguments);
        assert!(!is_error, "{tool}: {reply}");
        reply
    }

    /// The process of a session.
    fn pid_of(&mut self, session: &str) -> u32 {
        let (reply, _) = self.call("list_sessions", json!({}));
        let sessions = reply["sessions"].as_array().expect("a list");
        let found = sessions.iter().find(|s| s["session"] == session);
        let pid = found.and_then(|s| s["pid"].as_u64());
        pid.unwrap_or_else(|| panic!("no process of {session}: {reply}")) as u32
    }

    /// A file in the server's home.
    fn file(&self, name: &str, contents: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, contents).expect("written");
        path.to_str().expect("text").to_string()
    }
}

fn server_at(executable: Executable, home: &Path) -> Client {
    Client::start_with(executable, |command| {
        command.env("HOME", home);
    })
}

/// Waits for what another process is about to do.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether there is such a process, also as a zombie.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Every child of a process, zombies included.
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().flat_map(str::parse).collect()
}

fn notice(reply: &Value) -> &str {
    reply["notice"].as_str().unwrap_or_default()
}

const SEGFAULT: &str = "String.length (Obj.magic 3 : string ref).contents";
