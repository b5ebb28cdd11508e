//! Named sessions where `~/.topup` cannot be used.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{SEGFAULT, notice};
use crate::support::{Client, Executable, each};

/// A server that can keep nothing, and a folder for its checkpoints.
struct Homeless {
    client: Client,
    folder: tempfile::TempDir,
}

impl Homeless {
    /// For each of the ways to have no `~/.topup`, a server; also what a message is to name.
    fn all(executable: Executable, test: impl Fn(Homeless, &str)) {
        let file = tempfile::tempdir().unwrap();
        fs::write(file.path().join(".topup"), "").unwrap();
        let in_file = file.path().join(".topup");
        let homes: [(Option<&Path>, &str); 3] = [
            (Some(Path::new("/proc/nope")), "/proc/nope/.topup"),
            (Some(file.path()), in_file.to_str().unwrap()),
            (None, "HOME is not set"),
        ];
        for (home, says) in homes {
            let folder = tempfile::tempdir().unwrap();
            let client = Client::start_with(executable, |command| {
                match home {
                    Some(home) => command.env("HOME", home),
                    None => command.env_remove("HOME"),
                };
                command.env("TOPUP_CHECKPOINT_DIR", folder.path());
            });
            test(Homeless { client, folder }, says);
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let (reply, is_error) = self.client.call(tool, arguments);
        assert!(!is_error, "{tool}: {reply}");
        assert!(!reply.to_string().contains("TOPUP_LOG"), "{reply}");
        reply
    }

    fn eval_in(&mut self, session: &str, source: &str) -> Value {
        let arguments = json!({ "source": source, "session": session });
        self.client.call("eval", arguments).0
    }

    fn crash_in(&mut self, session: &str) {
        let reply = self.eval_in(session, SEGFAULT);
        assert_eq!(reply["phase"], "crash", "{reply}");
    }
}

#[test]
fn the_log_is_kept_in_memory() {
    each(|executable| {
        Homeless::all(executable, |mut server, says| {
            let reply = server.call("start_local_session", json!({ "session": "a", "pool": 2 }));
            assert!(notice(&reply).contains(says), "{reply}");
            for session in ["a", "a.1"] {
                let reply = server.eval_in(session, "let x = 40;; let y = 1");
                assert!(notice(&reply).contains(says), "{reply}");
                assert!(!notice(&reply).contains("TOPUP_LOG"), "{reply}");
                // Both phrases of a source that is not over.
                server.eval_in(session, &format!("let z = 1;; {SEGFAULT}"));
                let reply = server.eval_in(session, "x + y + z");
                assert_eq!(reply["value_repr"], "42", "{reply}");
                assert!(notice(&reply).contains("its 3 phrases"), "{reply}");
            }
            // It is in a checkpoint, and survives an end of the server's own toplevel.
            let reply = server.call("checkpoint", json!({ "label": "cp", "session": "a" }));
            assert_eq!(reply["phrases"], 4, "{reply}");
            assert_eq!(server.client.eval(SEGFAULT)["phase"], "crash");
            server.eval_in("a", "let w = x + 2");
            server.crash_in("a");
            let reply = server.eval_in("a", "w");
            assert_eq!(reply["value_repr"], "42", "{reply}");
            // A reset and a restore begin another one.
            server.call("reset", json!({ "session": "a" }));
            server.call("restore", json!({ "label": "cp", "session": "a.1" }));
            server.eval_in("a.1", "let v = z");
            server.crash_in("a.1");
            let reply = server.eval_in("a.1", "x + v");
            assert_eq!(reply["value_repr"], "41", "{reply}");
            assert!(server.folder.path().join("cp.ml").exists());
        });
    });
}

#[test]
fn a_reset_is_not_undone() {
    each(|executable| {
        Homeless::all(executable, |mut server, _| {
            server.call("start_local_session", json!({ "session": "a" }));
            server.eval_in("a", "let x = 1");
            server.call("reset", json!({ "session": "a" }));
            server.crash_in("a");
            assert!(server.eval_in("a", "x")["error"].is_string());
            server.eval_in("a", "let y = 2");
            server.crash_in("a");
            let reply = server.eval_in("a", "y");
            assert_eq!(reply["value_repr"], "2", "{reply}");
        });
    });
}

#[test]
fn how_sessions_are_made_is_kept_in_memory() {
    each(|executable| {
        Homeless::all(executable, |mut server, says| {
            let prewarm = server.folder.path().join("pre.ml");
            fs::write(&prewarm, "let base = 40").unwrap();
            let made = json!({ "session": "a", "prewarm": prewarm });
            server.call("start_local_session", made);
            server.eval_in("a", "let x = 1");
            let reply = server.call("restart_local_session", json!({ "session": "a" }));
            assert_eq!(reply["started"], true);
            assert_eq!(server.eval_in("a", "base")["value_repr"], "40");
            assert!(server.eval_in("a", "x")["error"].is_string());
            let update = json!({ "session": "a", "pool": 2, "description": "d" });
            let reply = server.call("update_local_session", update);
            assert!(notice(&reply).contains(says), "{reply}");
            assert_eq!(reply["prewarm"], json!(prewarm), "{reply}");
            // Also over an end of the server's own toplevel.
            assert_eq!(server.client.eval(SEGFAULT)["phase"], "crash");
            let reply = server.call("restart_local_session", json!({ "session": "a" }));
            assert_eq!(reply["sessions"], json!(["a", "a.1"]), "{reply}");
            assert_eq!(server.eval_in("a.1", "base")["value_repr"], "40");
            server.call("stop_local_session", json!({ "session": "a" }));
            let reply = server.call("list_sessions", json!({}));
            assert_eq!(reply["sessions"][0]["description"], "d", "{reply}");
            let reply = server.call("start_local_session", json!({ "session": "a" }));
            assert_eq!(reply["pool"], 2, "{reply}");
            let forget = json!({ "session": "a", "forget": true });
            server.call("stop_local_session", forget);
            let reply = server.call("list_sessions", json!({}));
            assert_eq!(reply["sessions"], json!([]), "{reply}");
        });
    });
}
