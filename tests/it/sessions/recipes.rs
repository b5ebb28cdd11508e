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
fn a_file_that_is_none_is_moved_aside_and_not_waited_for() {
    let mut server = Server::start(BYTECODE);
    let folder = server.home.path().join(".topup");
    fs::create_dir_all(&folder).unwrap();
    for name in ["sessions.json", "hosts.json"] {
        let made = std::process::Command::new("mkfifo")
            .arg(folder.join(name))
            .status();
        assert!(made.unwrap().success());
    }
    server.call("list_sessions", json!({}));
    let reply = server.session("a", json!({}));
    assert!(notice(&reply).contains("sessions.json.1"), "{reply}");
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

/// A server whose files hold `text`; also what a client reads first.
fn with(file: &str, text: &str) -> (Server, String) {
    let mut server = Server::start(BYTECODE);
    let folder = server.home.path().join(".topup");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(file), text).unwrap();
    server
        .client
        .request("initialize", json!({ "protocolVersion": "2025-06-18" }));
    let reply = server.client.receive();
    let instructions = reply["result"]["instructions"].as_str().unwrap();
    (server, instructions.to_string())
}

#[test]
fn entries_that_break_the_rules_are_left_alone() {
    let long = "x".repeat(1001);
    let entries = [
        (
            "many",
            json!({ "pool": 100_000 }),
            "pool must be from 1 to 64, not 100000",
        ),
        (
            "none",
            json!({ "pool": 0 }),
            "pool must be from 1 to 64, not 0",
        ),
        ("less", json!({ "pool": -1 }), "pool must be a whole number"),
        (
            "typed",
            json!({ "prewarm": 7 }),
            "prewarm must be a string, not 7",
        ),
        (
            "relative",
            json!({ "prewarm": "pre.ml" }),
            "prewarm must be an absolute path",
        ),
        (
            "told",
            json!({ "description": long }),
            "description has 1001 characters",
        ),
        ("list", json!([1]), "must be an object"),
        ("", json!({}), "is empty"),
        ("local", json!({}), "means the toplevel"),
        ("../x", json!({}), "has a dot"),
        ("a\nb", json!({}), "has the character"),
    ];
    let mut all = serde_json::Map::new();
    for (name, entry, _) in &entries {
        all.insert(name.to_string(), entry.clone());
    }
    let theirs = json!({
        "description": "it \u{1b}[31mis\u{0} in\nred", "pool": null, "session": "other", "live": true, "colour": 1,
    });
    all.insert("good".into(), theirs);
    let all = Value::Object(all);
    let (mut server, instructions) = with("sessions.json", &all.to_string());
    assert!(
        instructions.contains("- good: it [31mis in red (not"),
        "{instructions}"
    );
    assert!(!instructions.contains(|c: char| c.is_control() && c != '\n'));
    assert_eq!(
        instructions
            .lines()
            .filter(|line| line.starts_with("- "))
            .count(),
        1
    );
    let (reply, _) = server.call("list_sessions", json!({}));
    assert_eq!(reply["sessions"].as_array().unwrap().len(), 1, "{reply}");
    assert_eq!(reply["sessions"][0]["session"], "good", "{reply}");
    assert_eq!(reply["sessions"][0]["pool"], 1, "{reply}");
    for (name, _, rule) in &entries {
        let notice = notice(&reply);
        assert!(notice.contains(&format!("{name:?}")), "{notice}");
        assert!(notice.contains(rule), "{rule}: {notice}");
    }
    // One that is started under such a name is made as if nothing were known of it.
    let reply = server.session("many", json!({ "pool": 2 }));
    assert_eq!(reply["pool"], 2, "{reply}");
    assert!(notice(&reply).contains("not 100000"), "{reply}");
    server.call("restart_local_session", json!({ "session": "many" }));
    server.session("good", json!({ "description": "still" }));
    let (reply, is_error) = server.call(
        "update_local_session",
        json!({ "session": "less", "pool": 1 }),
    );
    assert!(is_error, "{reply}");
    assert!(
        reply["error"].as_str().unwrap().contains("not -1"),
        "{reply}"
    );
    let mut kept = recipes(&server);
    assert_eq!(kept["good"]["colour"], 1);
    kept["good"] = all["good"].clone();
    assert_eq!(kept, all, "nothing was lost");
    let forget = json!({ "session": "many", "forget": true });
    assert!(!server.call("stop_local_session", forget).1);
    assert!(recipes(&server).get("many").is_none());
}

#[test]
fn hosts_that_break_the_rules_are_left_alone() {
    let long = "x".repeat(1001);
    let entries = [
        ("-oProxyCommand=touch", json!({}), "begins with a dash"),
        ("a\u{1b}b", json!({}), "has the character"),
        ("a\nb", json!({}), "has the character"),
        (
            "told",
            json!({ "description": long }),
            "description has 1001 characters",
        ),
        ("typed", json!({ "os": [1] }), "os must be a string"),
        (
            "socket",
            json!({ "remote_socket": "a\nb" }),
            "has the character",
        ),
        ("text", json!("x"), "must be an object"),
    ];
    let mut all = serde_json::Map::new();
    for (name, entry, _) in &entries {
        all.insert(name.to_string(), entry.clone());
    }
    let known =
        json!({ "description": "far\u{7} away", "os": "a\u{1b}b", "live": true, "colour": 1 });
    all.insert("box".into(), known);
    let all = Value::Object(all);
    let (mut server, instructions) = with("hosts.json", &all.to_string());
    assert!(
        instructions.contains("- box: far away (a b; not"),
        "{instructions}"
    );
    assert!(!instructions.contains(|c: char| c.is_control() && c != '\n'));
    let (reply, _) = server.call("list_sessions", json!({}));
    assert_eq!(reply["hosts"].as_array().unwrap().len(), 1, "{reply}");
    assert_eq!(reply["hosts"][0]["live"], false, "{reply}");
    for (name, _, rule) in &entries {
        let notice = notice(&reply);
        assert!(notice.contains(&format!("{name:?}")), "{notice}");
        assert!(notice.contains(rule), "{rule}: {notice}");
    }
    let (reply, is_error) = server.call("update_host", json!({ "host": "box", "os": "Debian" }));
    assert!(!is_error, "{reply}");
    let (reply, is_error) = server.call("update_host", json!({ "host": "box", "os": long }));
    assert!(is_error && reply["phase"] == "arguments", "{reply}");
    let (reply, is_error) = server.call("update_host", json!({ "host": "typed", "os": "Debian" }));
    assert!(
        is_error && reply["error"].as_str().unwrap().contains("os must be"),
        "{reply}"
    );
    let path = server.home.path().join(".topup/hosts.json");
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    kept["box"] = all["box"].clone();
    assert_eq!(kept, all, "nothing was lost");
}
