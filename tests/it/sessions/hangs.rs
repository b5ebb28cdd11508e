//! Processes that stand still, prewarms without end, and files that others hold: whoever
//! waits for them can be told to stop, and nothing else waits.

use std::fs::{self, File};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::{SEGFAULT, Server, children, eventually, exists, notice, server_at};
use crate::support::{BYTECODE, Client, assert_timed_out, each, payload};

/// Sends a signal to one process.
fn signal(name: &str, pid: u32) {
    let script = format!("kill -s {name} {pid}");
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.is_ok_and(|status| status.success()), "{script}");
}

/// Stops a process, and waits until it stands still.
fn stop(pid: u32) {
    signal("STOP", pid);
    eventually("it stands still", || {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
    });
}

fn is_zombie(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

/// Withdraws a call.
fn withdraw(client: &mut Client, id: u64) {
    let line = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    client.send_line(&line.to_string());
}

/// The process that comes with a step.
fn made_by(server: &mut Server, step: impl FnOnce(&mut Server)) -> u32 {
    let before = children(server.client.child.id());
    step(server);
    let after = children(server.client.child.id());
    let mut made = after.into_iter().filter(|pid| !before.contains(pid));
    made.next().expect("a process more")
}

/// Waits until a call's turn in the session has come.
fn begun(server: &mut Server, session: &str) {
    loop {
        let (reply, _) = server.call("list_sessions", json!({}));
        let sessions = reply["sessions"].as_array().expect("a list");
        let is_it = |listed: &&Value| listed["session"] == session && listed["busy"] == true;
        if sessions.iter().any(|listed| is_it(&listed)) {
            return;
        }
    }
}

/// The next two replies, by their ids.
fn two(server: &mut Server) -> [(u64, Value); 2] {
    [(); 2].map(|()| {
        let reply = server.client.receive();
        (reply["id"].as_u64().expect("an id"), payload(&reply).0)
    })
}

#[test]
fn a_checkpoints_process_that_hangs_is_given_up() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.eval_in("a", "let x = 41");
        let frozen = made_by(&mut server, |server| {
            server.call_in("a", "checkpoint", json!({ "label": "cp" }));
        });
        server.eval_in("a", "let x = 0");
        stop(frozen);
        let restore = json!({ "label": "cp", "session": "a" });
        let id = server.client.begin_call("restore", restore);
        // Copies of others are made meanwhile.
        let pool = json!({ "session": "p", "pool": 3 });
        let start = server.client.begin_call("start_local_session", pool);
        let [(first, _), (second, reply)] = two(&mut server);
        assert_eq!((first, second), (start, id));
        assert!(notice(&reply).contains("replayed 1 phrase"), "{reply}");
        assert!(notice(&reply).contains("did not answer"), "{reply}");
        assert!(!exists(frozen), "it was ended");
        assert_eq!(server.value_in("a", "x + 1"), "42");
    });
}

#[test]
fn a_restore_whose_process_hangs_can_be_cancelled() {
    let mut server = Server::start(BYTECODE);
    server.session("a", json!({}));
    server.eval_in("a", "let x = 41");
    let frozen = made_by(&mut server, |server| {
        server.call_in("a", "checkpoint", json!({ "label": "cp" }));
    });
    server.eval_in("a", "let y = 1");
    stop(frozen);
    let restore = json!({ "label": "cp", "session": "a" });
    let id = server.client.begin_call("restore", restore.clone());
    begun(&mut server, "a");
    let cancel = json!({ "session": "a" });
    let cancel = server.client.begin_call("cancel", cancel);
    let replies = two(&mut server);
    let of = |wanted: u64| &replies.iter().find(|(id, _)| *id == wanted).expect("it").1;
    assert_eq!(of(cancel)["cancelled"], true);
    assert_timed_out(of(id));
    assert_eq!(server.value_in("a", "x + y"), "42", "it is as it was");
    let id = server.client.begin_call("restore", restore);
    begun(&mut server, "a");
    withdraw(&mut server.client, id);
    assert_eq!(server.value_in("a", "x + y"), "42", "it is as it was");
}

#[test]
fn a_template_that_hangs_is_given_up() {
    each(|executable| {
        let mut server = Server::start(executable);
        let prewarm = server.file("pre.ml", "let base = 40");
        server.session("p", json!({ "pool": 2, "prewarm": prewarm }));
        let members = ["p", "p.1"].map(|name| server.pid_of(name));
        let mut rest = children(server.client.child.id());
        rest.retain(|pid| !members.contains(pid));
        stop(rest[0]);
        server.eval_in("p.1", "let x = base + 1");
        server.eval_in("p.1", SEGFAULT);
        let reply = server.eval_in("p.1", "x + 1");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        assert!(notice(&reply).contains("did not answer"), "{reply}");
        assert!(!exists(rest[0]), "it was ended");
    });
}

/// A file that loops for as long as the file `flag` is there.
fn endless_while(server: &Server, flag: &str) -> String {
    let begun = format!("{flag}.begun");
    let source = format!(
        "let base = 40;;\nlet () = if Sys.file_exists {flag:?} then (close_out (open_out {begun:?}); while true do () done)"
    );
    server.file("pre.ml", &source)
}

fn wait_for(path: &str) {
    eventually("it runs", || fs::exists(path).unwrap());
    fs::remove_file(path).unwrap();
}

#[test]
fn a_prewarm_without_end_is_ended_by_the_sessions_name() {
    each(|executable| {
        let mut server = Server::start(executable);
        let flag = server.file("flag", "");
        let prewarm = endless_while(&server, &flag);
        let begun = format!("{flag}.begun");
        let start = json!({ "session": "a", "prewarm": prewarm, "pool": 2 });
        let server_pid = server.client.child.id();
        // The tool, the notification, the end of the session.
        for way in ["cancel", "notification", "stop"] {
            let id = server
                .client
                .begin_call("start_local_session", start.clone());
            wait_for(&begun);
            let session = json!({ "session": "a" });
            let (reply, _) = server.call("eval", json!({ "source": "1", "session": "a" }));
            assert!(
                reply["error"]
                    .as_str()
                    .unwrap()
                    .contains("is being started"),
                "{reply}"
            );
            let by = match way {
                "cancel" => Some(server.client.begin_call("cancel", session)),
                "stop" => Some(server.client.begin_call("stop_local_session", session)),
                _ => {
                    let line = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": session });
                    server.client.send_line(&line.to_string());
                    None
                }
            };
            let count = if by.is_some() { 2 } else { 1 };
            for _ in 0..count {
                let reply = server.client.receive();
                let (answer, is_error) = payload(&reply);
                if reply["id"] == id {
                    assert!(is_error && answer["phase"] == "prewarm", "{answer}");
                    assert_timed_out(&answer);
                } else {
                    let key = if way == "stop" {
                        "stopped"
                    } else {
                        "cancelled"
                    };
                    assert_eq!(answer[key], true, "{way}: {answer}");
                }
            }
            eventually("the process has ended", || children(server_pid).is_empty());
        }
        // Nothing was kept of it, and with an end to its prewarm it comes up.
        fs::remove_file(&flag).unwrap();
        server.session("a", json!({ "prewarm": prewarm }));
        server.call("stop_local_session", json!({ "session": "a" }));
        fs::write(&flag, "").unwrap();
        let id = server
            .client
            .begin_call("start_local_session", json!({ "session": "a" }));
        wait_for(&begun);
        fs::remove_file(&flag).unwrap();
        let restart = server
            .client
            .begin_call("restart_local_session", json!({ "session": "a" }));
        let [(first, failed), (second, started)] = two(&mut server);
        assert_eq!((first, second), (id, restart));
        assert_timed_out(&failed);
        assert_eq!(started["started"], true, "{started}");
        assert_eq!(server.value_in("a", "base"), "40");
    });
}

#[test]
fn the_default_limit_holds_for_a_prewarm() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let mut client = Client::start_with(executable, |command| {
            command.env("HOME", home.path()).env("TOPUP_TIMEOUT", "0.5");
        });
        let prewarm = home.path().join("pre.ml");
        fs::write(&prewarm, "let () = while true do () done").unwrap();
        let start = json!({ "session": "a", "prewarm": prewarm });
        let (reply, is_error) = client.call("start_local_session", start);
        assert!(is_error && reply["phase"] == "prewarm", "{reply}");
        let error = reply["error"].as_str().unwrap();
        assert!(
            error.contains("evaluation timed out after 0.5 s"),
            "{reply}"
        );
        assert!(error.contains("TOPUP_TIMEOUT"), "{reply}");
    });
}

#[test]
fn a_prewarm_without_end_that_brings_a_session_back_is_ended() {
    each(|executable| {
        let mut server = Server::start(executable);
        let flag = format!("{}.flag", server.file("f", ""));
        let prewarm = endless_while(&server, &flag);
        let begun = format!("{flag}.begun");
        server.session("a", json!({ "prewarm": prewarm }));
        server.eval_in("a", "let x = 1");
        server.eval_in("a", SEGFAULT);
        fs::write(&flag, "").unwrap();
        let call = json!({ "source": "x", "session": "a" });
        let id = server.client.begin_call("eval", call.clone());
        wait_for(&begun);
        let cancel = server
            .client
            .begin_call("cancel", json!({ "session": "a" }));
        let replies = two(&mut server);
        let of = |wanted: u64| &replies.iter().find(|(id, _)| *id == wanted).expect("it").1;
        assert_eq!(of(cancel)["cancelled"], true);
        assert_timed_out(of(id));
        let id = server.client.begin_call("eval", call.clone());
        wait_for(&begun);
        withdraw(&mut server.client, id);
        let id = server.client.begin_call("eval", call);
        wait_for(&begun);
        let stop = json!({ "session": "a" });
        let stop = server.client.begin_call("stop_local_session", stop);
        let replies = two(&mut server);
        let of = |wanted: u64| &replies.iter().find(|(id, _)| *id == wanted).expect("it").1;
        assert_eq!(of(stop)["stopped"], true);
        assert_timed_out(of(id));
        let server_pid = server.client.child.id();
        eventually("the process has ended", || children(server_pid).is_empty());
    });
}

#[test]
fn a_call_that_a_worker_does_not_answer_can_be_cancelled() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.eval_in("a", "let x = 41");
        for (tool, arguments) in [
            ("env", json!({ "session": "a" })),
            ("checkpoint", json!({ "session": "a", "label": "cp" })),
        ] {
            let pid = server.pid_of("a");
            stop(pid);
            let id = server.client.begin_call(tool, arguments);
            begun(&mut server, "a");
            let cancel = server
                .client
                .begin_call("cancel", json!({ "session": "a" }));
            let [(first, _), (second, reply)] = two(&mut server);
            assert_eq!((first, second), (cancel, id));
            assert_timed_out(&reply);
            assert_eq!(reply["phase"], "crash", "{tool}: {reply}");
            assert!(!exists(pid), "it was ended");
            let reply = server.eval_in("a", "x + 1");
            assert_eq!(reply["value_repr"], "42", "{reply}");
        }
        // A withdrawn one, too: what comes next is answered.
        stop(server.pid_of("a"));
        let id = server.client.begin_call("env", json!({ "session": "a" }));
        begun(&mut server, "a");
        withdraw(&mut server.client, id);
        assert_eq!(server.value_in("a", "1 + 1"), "2");
    });
}

#[test]
fn a_process_that_stands_still_can_be_ended() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        let first = server.pid_of("a");
        stop(first);
        let reply = server.call_in("a", "restart_local_session", json!({}));
        assert_eq!(reply["started"], true, "{reply}");
        assert!(!exists(first));
        let second = server.pid_of("a");
        stop(second);
        let call = json!({ "source": "1 + 1", "session": "a", "timeout": 0.2 });
        assert_timed_out(&server.call("eval", call).0);
        assert!(!exists(second), "it was ended");
        assert_eq!(server.value_in("a", "1 + 1"), "2");
        let third = server.pid_of("a");
        stop(third);
        let env = server.client.begin_call("env", json!({ "session": "a" }));
        begun(&mut server, "a");
        let stopped = json!({ "session": "a" });
        let stopped = server.client.begin_call("stop_local_session", stopped);
        let mut ids = two(&mut server).map(|(id, _)| id);
        ids.sort();
        assert_eq!(ids, [env, stopped]);
        assert!(!exists(third));
    });
}

#[test]
fn a_file_that_others_hold_is_not_waited_for_without_end() {
    let mut server = Server::start(BYTECODE);
    server.session("a", json!({}));
    server.session("b", json!({}));
    let lock = server.home.path().join(".topup/sessions.json.lock");
    let lock = File::options().write(true).open(lock).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let update = |session: &str| json!({ "session": session, "description": "d" });
    let held = server
        .client
        .begin_call("update_local_session", update("b"));
    let withdrawn = server
        .client
        .begin_call("update_local_session", update("a"));
    assert_eq!(server.client.eval("1 + 1")["value_repr"], "2");
    withdraw(&mut server.client, withdrawn);
    // It was held up by the withdrawn one alone.
    let (reply, _) = server.call("stop_local_session", json!({ "session": "a" }));
    assert_eq!(reply["stopped"], true, "{reply}");
    let start = server
        .client
        .begin_call("start_local_session", json!({ "session": "c" }));
    let [(first, updated), (second, started)] = two(&mut server);
    assert_eq!((first, second), (held, start));
    for reply in [updated, started] {
        let held = notice(&reply).contains(".topup/sessions.json.lock");
        assert!(held, "{reply}");
    }
    assert_eq!(server.value_in("c", "1 + 1"), "2", "it is up all the same");
    drop(lock);
    let (reply, is_error) = server.call("update_local_session", update("b"));
    assert!(!is_error, "{reply}");
}

#[test]
fn commands_of_sessions_end_with_their_server() {
    each(|executable| {
        for (name, command) in [
            (
                "TERM",
                "sleep 600 & echo $! >FILE.new; mv FILE.new FILE; wait",
            ),
            (
                "KILL",
                "echo $$ >FILE.new; mv FILE.new FILE; exec sleep 600",
            ),
        ] {
            let mut server = Server::start(executable);
            server.session("a", json!({}));
            let file = server.home.path().join("pid");
            let command = command.replace("FILE", file.to_str().unwrap());
            let source = format!("Sys.command {command:?}");
            let call = json!({ "source": source, "session": "a" });
            server.client.begin_call("eval", call);
            eventually("the program runs", || file.exists());
            let program: u32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            server.client.signal(name);
            server.client.wait();
            eventually("the program has ended", || {
                !exists(program) || is_zombie(program)
            });
        }
    });
}

#[test]
fn orphans_of_others_are_waited_for() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let mut server = Server {
            client: server_at(executable, home.path()),
            home,
        };
        let server_pid = server.client.child.id();
        server.session("a", json!({}));
        server.session("orphans", json!({}));
        // A child of user code is its own to wait for.
        server.client.eval("#require \"unix\"");
        server
            .client
            .eval("let mine = match Unix.fork () with 0 -> Unix._exit 7 | pid -> pid");
        server.call_in("a", "checkpoint", json!({ "label": "cp" }));
        let flag = server.file("flag", "");
        let source =
            format!("Sys.command \"while test -f {flag}; do (sleep 0.2 & sleep 0 &); done\"");
        let call = json!({ "source": source, "session": "orphans" });
        let id = server.client.begin_call("eval", call);
        for _ in 0..100 {
            let call = json!({ "label": "cp", "session": "a" });
            let (reply, _) = server.call("restore", call);
            assert!(notice(&reply).starts_with("went back"), "{reply}");
        }
        fs::remove_file(&flag).unwrap();
        assert_eq!(server.client.receive()["id"], id);
        // Two sessions, a checkpoint's process, and the child of user code.
        eventually("they are waited for", || children(server_pid).len() <= 4);
        let reply = server.client.eval("snd (Unix.waitpid [] mine)");
        assert_eq!(reply["value_repr"], "Unix.WEXITED 7", "{reply}");
        let reply = server
            .client
            .eval("match Unix.fork () with 0 -> Unix._exit 8 | pid -> snd (Unix.waitpid [] pid)");
        assert_eq!(reply["value_repr"], "Unix.WEXITED 8", "{reply}");
    });
}
