//! `sessions.json`: nothing in it is lost.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use super::{Server, notice, server_at};
use crate::support::BYTECODE;

#[test]
fn updates_are_kept_and_applied_at_the_next_start() {
    let mut server = Server::start(BYTECODE);
    let file = server.file("pre.ml", "let answer = 42");
    let (reply, is_error) =
        server.call("update_local_session", json!({ "session": "a", "pool": 2 }));
    assert!(
        is_error
            && reply["error"]
                .as_str()
                .unwrap()
                .contains("start_local_session makes one"),
        "{reply}"
    );
    server.session("a", json!({}));
    let update = json!({ "session": "a", "prewarm": file, "description": "numbers" });
    let (reply, is_error) = server.call("update_local_session", update);
    assert!(!is_error, "{reply}");
    assert_eq!(
        (&reply["prewarm"], &reply["pool"]),
        (&json!(file), &json!(1))
    );
    server.call("update_local_session", json!({ "session": "a", "pool": 2 }));
    assert!(
        server.eval_in("a", "answer")["error"].is_string(),
        "it runs as it was"
    );
    let (reply, _) = server.call("restart_local_session", json!({ "session": "a" }));
    assert_eq!(reply["sessions"], json!(["a", "a.1"]), "{reply}");
    assert_eq!(server.value_in("a.1", "answer"), "42");
    let stored = recipes(&server);
    assert_eq!(
        stored["a"],
        json!({ "prewarm": file, "pool": 2, "description": "numbers" })
    );
    let (reply, _) = server.call(
        "stop_local_session",
        json!({ "session": "a", "forget": true }),
    );
    assert_eq!(reply["stopped"], true);
    assert_eq!(recipes(&server), json!({}));
}

fn recipes(server: &Server) -> Value {
    let path = server.home.path().join(".topup/sessions.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_damaged_file_is_moved_aside() {
    let mut server = Server::start(BYTECODE);
    let folder = server.home.path().join(".topup");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("sessions.json"), "{\"precious\": {\"pool\": ").unwrap();
    let reply = server.session("a", json!({}));
    assert!(notice(&reply).contains("sessions.json.1"), "{reply}");
    let aside = fs::read_to_string(folder.join("sessions.json.1")).unwrap();
    assert!(aside.contains("precious"));
    assert!(recipes(&server)["a"].is_object());
}

#[test]
fn what_another_version_has_written_stays() {
    let mut server = Server::start(BYTECODE);
    let folder = server.home.path().join(".topup");
    fs::create_dir_all(&folder).unwrap();
    let theirs =
        json!({ "a": { "pool": 1, "colour": "red" }, "b": { "prewarm": "/b.ml", "new": [1] } });
    fs::write(folder.join("sessions.json"), theirs.to_string()).unwrap();
    server.session("a", json!({ "description": "d" }));
    let stored = recipes(&server);
    assert_eq!(stored["a"]["colour"], "red");
    assert_eq!(stored["b"]["new"], json!([1]));
    assert_eq!(stored["b"]["prewarm"], "/b.ml");
}

#[test]
fn two_servers_do_not_lose_each_others_entries() {
    let home = tempfile::tempdir().unwrap();
    let servers: Vec<_> = (0..3)
        .map(|number| {
            let mut client = server_at(BYTECODE, home.path());
            thread::spawn(move || {
                for round in 0..5 {
                    let session = format!("s{number}-{round}");
                    let (reply, is_error) =
                        client.call("start_local_session", json!({ "session": session }));
                    assert!(!is_error, "{reply}");
                    client.call("stop_local_session", json!({ "session": session }));
                }
            })
        })
        .collect();
    servers
        .into_iter()
        .for_each(|server| server.join().unwrap());
    let text = fs::read_to_string(home.path().join(".topup/sessions.json")).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stored.as_object().unwrap().len(), 15, "{text}");
}
