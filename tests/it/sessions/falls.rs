//! The server comes to its end, or a session's way back is interrupted, at a bad moment.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::{SEGFAULT, Server, children, eventually};
use crate::support::{BYTECODE, each, payload};

#[test]
fn a_client_that_reads_late_gets_each_answer_once() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        let runs = server.file("runs", "");
        let run = format!(
            "let run k = incr n; let runs = open_out_gen [Open_append] 0o600 {runs:?} in output_char runs '.'; close_out runs; Unix.sleepf 0.05; k"
        );
        server.eval_in("a", &format!("#require \"unix\";; let n = ref 0;; {run}"));
        // More than a pipe holds.
        let text = json!({ "source": "print_string (String.make 9000 'x')" });
        let printed: Vec<u64> = (0..20)
            .map(|_| server.client.begin_call("eval", text.clone()))
            .collect();
        let mut expected = Vec::new();
        for k in 0..5 {
            let call = json!({ "source": format!("run {k}"), "session": "a" });
            expected.push((server.client.begin_call("eval", call), k.to_string()));
        }
        let crash = server
            .client
            .begin_call("eval", json!({ "source": SEGFAULT }));
        eventually("all have run", || fs::read(&runs).unwrap().len() == 5);
        let mut answered = Vec::new();
        for _ in 0..printed.len() + expected.len() + 1 {
            let reply = server.client.receive();
            let id = reply["id"].as_u64().unwrap();
            assert!(!answered.contains(&id), "twice: {reply}");
            answered.push(id);
            let (reply, _) = payload(&reply);
            if let Some((_, value)) = expected.iter().find(|(call, _)| *call == id) {
                assert_eq!(reply["value_repr"], value.as_str(), "{reply}");
            } else if id == crash {
                assert_eq!(reply["phase"], "crash", "{reply}");
            } else {
                assert!(printed.contains(&id), "{reply}");
                assert_eq!(reply["error"], json!(null), "{reply}");
            }
        }
        assert_eq!(server.value_in("a", "!n"), "5", "nothing ran twice");
    });
}

#[test]
fn a_way_back_that_is_interrupted_loses_nothing() {
    each(|executable| {
        for how in ["cancelled", "withdrawn", "killed", "fallen"] {
            let mut server = Server::start(executable);
            let slow = Slow::session(&mut server);
            slow.comes_back(&mut server, how);
            let reply = server.eval_in("a", "x + 1");
            assert_eq!(reply["value_repr"], "42", "{how}: {reply}");
        }
    });
}

#[test]
fn an_end_is_one_however_often_the_way_back_is_interrupted() {
    let mut server = Server::start(BYTECODE);
    let slow = Slow::session(&mut server);
    for how in ["cancelled", "withdrawn", "cancelled", "withdrawn"] {
        slow.comes_back(&mut server, how);
    }
    let reply = server.eval_in("a", "x + 1");
    assert_eq!(reply["value_repr"], "42", "{reply}");
}

/// A session `a` whose process has ended, and whose prewarm takes as long as it is told to.
struct Slow {
    hold: String,
    begun: String,
}

impl Slow {
    fn session(server: &mut Server) -> Slow {
        let hold = server.file("hold", "");
        let begun = format!("{hold}.begun");
        let prewarm = format!(
            "#require \"unix\";;\nlet () = close_out (open_out {begun:?}); while Sys.file_exists {hold:?} do Unix.sleepf 0.01 done"
        );
        let prewarm = server.file("pre.ml", &prewarm);
        fs::remove_file(&hold).unwrap();
        server.session("a", json!({ "prewarm": prewarm }));
        server.eval_in("a", "let x = 41");
        server.eval_in("a", SEGFAULT);
        Slow { hold, begun }
    }

    /// A call brings it back, and is interrupted meanwhile.
    fn comes_back(&self, server: &mut Server, how: &str) {
        fs::remove_file(&self.begun).unwrap();
        fs::write(&self.hold, "").unwrap();
        let call = json!({ "source": "x", "session": "a" });
        let id = server.client.begin_call("eval", call);
        eventually("the prewarm runs", || fs::exists(&self.begun).unwrap());
        let replies = interrupt(server, how, id);
        fs::remove_file(&self.hold).unwrap();
        for _ in 0..replies {
            server.client.receive();
        }
    }
}

/// Interrupts the call `id`, for which a session is brought back; returns how many replies
/// there will be.
fn interrupt(server: &mut Server, how: &str, id: u64) -> usize {
    match how {
        "cancelled" => {
            let cancel = json!({ "session": "a" });
            server.client.begin_call("cancel", cancel);
            2
        }
        "withdrawn" => {
            let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
            server.client.send_line(&cancelled.to_string());
            0
        }
        "killed" => {
            let workers = children(server.client.child.id());
            assert_eq!(workers.len(), 1, "{workers:?}");
            let kill = format!("kill -9 {}", workers[0]);
            assert!(
                Command::new("sh")
                    .args(["-c", &kill])
                    .status()
                    .unwrap()
                    .success()
            );
            1
        }
        _ => {
            let crash = json!({ "source": SEGFAULT });
            server.client.begin_call("eval", crash);
            2
        }
    }
}
