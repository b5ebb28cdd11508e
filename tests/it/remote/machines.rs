//! Machines to test with: this side, and those that it reaches.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::home::Home;
use super::sshd::{Sshd, keygen, script};
use crate::support::{Client, Executable};

/// A machine: an sshd whose sessions have a home of their own, and topup on their PATH.
pub struct Machine {
    pub sshd: Sshd,
    pub home: Home,
}

/// This side: a server, and its home.
pub struct Near {
    pub client: Client,
    pub home: Home,
}

/// A user's configuration of ssh, whose keys every machine takes.
pub struct User {
    pub folder: TempDir,
}

impl User {
    pub fn new() -> User {
        let folder = tempfile::tempdir().expect("a folder");
        keygen(&folder.path().join("key"));
        User { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A machine where `executable` is what `topup` is.
    pub fn machine(&self, executable: Executable) -> Machine {
        self.make(executable, "", &[])
    }

    /// One with more lines of configuration for its sshd.
    pub fn machine_with(&self, executable: Executable, more: &str) -> Machine {
        self.make(executable, more, &[])
    }

    /// One whose sessions have more variables.
    pub fn machine_limited(&self, executable: Executable, variables: &[(&str, &str)]) -> Machine {
        self.make(executable, "", variables)
    }

    pub fn make(&self, executable: Executable, more: &str, variables: &[(&str, &str)]) -> Machine {
        let home = Home::new();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).expect("made");
        // Not a link: an image of the process that goes on is that of its own name.
        script(
            &bin.join("topup"),
            &format!("exec {} \"$@\"", executable.path),
        );
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let mut environment = vec![("HOME", home.path().to_str().unwrap()), ("PATH", &path)];
        environment.extend(variables);
        let sshd = Sshd::start(&self.path("key.pub"), &environment, more);
        Machine { sshd, home }
    }

    /// Writes the configuration of ssh; each name with its machine's port.
    pub fn configure(&self, hosts: &[(&str, u16)], more: &str) {
        let mut text = format!(
            "Host *\n  HostName 127.0.0.1\n  IdentityFile {}\n  IdentitiesOnly yes\n\
             \x20 StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n{more}\n",
            self.path("key").display()
        );
        for (name, port) in hosts {
            text = format!("Host {name}\n  Port {port}\n{text}");
        }
        fs::write(self.path("config"), text).expect("written");
    }

    pub fn command(&self) -> String {
        format!("ssh -F {}", self.path("config").display())
    }
}

impl Machine {
    /// The processes of topup there.
    pub fn topups(&self) -> Vec<u32> {
        let named = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim().starts_with("topup")
        };
        self.home.processes().into_iter().filter(named).collect()
    }
}

impl Near {
    pub fn start(executable: Executable, user: &User) -> Near {
        Near::start_with(executable, user, &[])
    }

    pub fn start_with(executable: Executable, user: &User, more: &[(&str, &str)]) -> Near {
        let home = Home::new();
        let client = near_at(executable, user, home.path(), more);
        Near { client, home }
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> (Value, bool) {
        self.client.call(tool, arguments)
    }

    /// Calls a tool; panics if that is an error.
    pub fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let (reply, is_error) = self.call(tool, arguments);
        assert!(!is_error, "{tool}: {reply}");
        reply
    }

    /// Calls a tool that fails in `phase`; returns what it says.
    pub fn refused(&mut self, tool: &str, arguments: Value, phase: &str) -> String {
        let (reply, is_error) = self.call(tool, arguments);
        assert!(is_error, "{tool}: {reply}");
        assert_eq!(reply["phase"], phase, "{tool}: {reply}");
        reply["error"].as_str().expect("an error").to_string()
    }

    pub fn connect(&mut self, host: &str) -> Value {
        self.done("start_session", json!({ "host": host }))
    }

    pub fn eval_on(&mut self, host: &str, source: &str) -> Value {
        self.call("eval", json!({ "source": source, "host": host }))
            .0
    }

    pub fn value_on(&mut self, host: &str, source: &str) -> Value {
        let reply = self.eval_on(host, source);
        assert!(reply["error"].is_null(), "{reply}");
        reply["value_repr"].clone()
    }

    /// The process of its ssh, which must be the only one.
    pub fn tunnel(&self) -> u32 {
        let children = super::sshd::children(self.client.child.id());
        let named = |pid: &&u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "ssh"
        };
        let found: Vec<&u32> = children.iter().filter(named).collect();
        assert_eq!(found.len(), 1, "one tunnel");
        *found[0]
    }
}

pub fn near_at(executable: Executable, user: &User, home: &Path, more: &[(&str, &str)]) -> Client {
    Client::start_with(executable, |command| {
        command.env("HOME", home).env("TOPUP_SSH", user.command());
        command.envs(more.iter().copied());
    })
}

/// One machine, "far", and this side.
pub fn pair(executable: Executable) -> (User, Machine, Near) {
    let user = User::new();
    let machine = user.machine(executable);
    user.configure(&[("far", machine.sshd.port)], "");
    let near = Near::start(executable, &user);
    (user, machine, near)
}
