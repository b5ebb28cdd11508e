//! Every routed tool on a host.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::home::Home;
use super::{Near, pair};
use crate::sessions::eventually;
use crate::support::{BYTECODE, Client, Executable, assert_timed_out, each, payload};

impl Near {
    fn call_on(&mut self, host: &str, tool: &str, mut arguments: Value) -> Value {
        arguments["host"] = host.into();
        self.done(tool, arguments)
    }
}

#[test]
fn every_routed_tool_runs_there() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        near.call_on("far", "eval", json!({ "source": "let twice x = 2 * x" }));
        let reply = near.call_on(
            "far",
            "eval_batch",
            json!({ "sources": ["let y = 21", "twice y"] }),
        );
        assert_eq!(reply["results"][1]["value_repr"], "42");
        assert_eq!(near.call_on("far", "env", json!({}))["total"], 2);
        assert_eq!(
            near.call_on("far", "lookup", json!({ "name": "twice" }))["type"],
            "int -> int"
        );
        assert_eq!(
            near.call_on("far", "typecheck", json!({ "source": "twice" }))["types"][0],
            "- : int -> int"
        );
        assert_eq!(
            near.call_on("far", "complete", json!({ "source": "twi" }))["completions"][0]["name"],
            "twice"
        );
        let reply = near.call_on("far", "checkpoint", json!({ "label": "all" }));
        let there = machine.home.path().join(".topup/checkpoints/all.ml");
        assert_eq!(
            reply["path"],
            there.to_str().unwrap(),
            "it is in the home there"
        );
        assert!(there.exists() && !near.home.path().join(".topup/checkpoints").exists());
        near.call_on("far", "restore", json!({ "label": "all" }));
        assert_eq!(near.call_on("far", "cancel", json!({}))["cancelled"], false);
        near.call_on(
            "far",
            "eval",
            json!({ "source": "let main () = print_int (twice y)" }),
        );
        let out = machine.home.path().join("out");
        let reply = near
            .call(
                "compile_to_binary",
                json!({ "entry": "main", "out": out, "host": "far" }),
            )
            .0;
        // Its dune is found by a path of the home there, if at all.
        assert!(
            reply["binary_path"].is_string() || reply["phase"] == "build",
            "{reply}"
        );
        near.call_on("far", "reset", json!({}));
        assert_eq!(near.call_on("far", "env", json!({}))["total"], 0);
        let project = machine.home.path().join("project");
        fs::create_dir(&project).unwrap();
        for (file, text) in [
            ("dune-project", "(lang dune 2.0)"),
            ("dune", "(library (name geo))"),
            ("geo.ml", "let area w h = w * h"),
        ] {
            fs::write(project.join(file), text).unwrap();
        }
        near.call_on("far", "load_project", json!({ "path": project }));
        assert_eq!(near.value_on("far", "Geo.area 6 7"), "42");
        // Failures come as they are.
        let said = near.refused(
            "load",
            json!({ "path": "x.cma", "host": "far" }),
            "arguments",
        );
        assert!(said.contains("absolute"), "{said}");
        let (reply, is_error) = near.call("eval", json!({ "source": "1 + true", "host": "far" }));
        assert!(
            is_error && reply["diagnostics"][0]["kind"] == "type",
            "{reply}"
        );
    });
}

#[test]
fn cancellation_reaches_the_host() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        let run = |near: &mut Near| {
            let flag = machine.home.path().join("runs");
            let _ = fs::remove_file(&flag);
            let source = format!(
                "close_out (open_out {:?}); while true do () done",
                flag.display()
            );
            let id = near
                .client
                .begin_call("eval", json!({ "source": source, "host": "far" }));
            eventually("it runs", || flag.exists());
            id
        };
        let notify = |params: Value| {
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
                .to_string()
        };
        // The tool.
        let id = run(&mut near);
        let cancel = near.client.begin_call("cancel", json!({ "host": "far" }));
        let replies = [near.client.receive(), near.client.receive()];
        let of = |id: u64| payload(replies.iter().find(|r| r["id"] == id).expect("a reply")).0;
        assert_eq!(of(cancel)["cancelled"], true);
        assert_timed_out(&of(id));
        // A notification that names the host; the local evaluation is no target of it.
        let id = run(&mut near);
        near.client.send_line(&notify(json!({})));
        near.client.send_line(&notify(json!({ "host": "nosuch" })));
        near.client.send_line(&notify(json!({ "host": "far" })));
        let reply = near.client.receive();
        assert_eq!(reply["id"], id, "{reply}");
        assert_timed_out(&payload(&reply).0);
        // By its id: no reply, and what waits behind it begins.
        let id = run(&mut near);
        let never = machine.home.path().join("never");
        let queued = json!({ "source": format!("close_out (open_out {:?})", never.display()), "host": "far" });
        let queued = near.client.begin_call("eval", queued);
        let last = near
            .client
            .begin_call("eval", json!({ "source": "\"last\"", "host": "far" }));
        near.client
            .send_line(&notify(json!({ "requestId": queued })));
        near.client.send_line(&notify(json!({ "requestId": id })));
        let reply = near.client.receive();
        assert_eq!(reply["id"], last, "{reply}");
        assert!(!never.exists(), "a cancelled queued call never starts");
    });
}

#[test]
fn a_call_that_is_over_is_not_cancelled_in_the_place_of_another() {
    each(|executable| {
        let home = Home::new();
        let socket = home.path().join("s");
        let mut topup = Client::start_on_socket(executable, &socket, |command| {
            command.env("HOME", home.path());
        });
        let hello = json!({ "clientInfo": { "name": "topup", "version": "0" } });
        topup.request("initialize", hello);
        topup.receive();
        let (ready, go) = (home.path().join("ready"), home.path().join("go"));
        let source = format!(
            "close_out (open_out {ready:?}); while not (Sys.file_exists {go:?}) do () done; 42"
        );
        let runs = topup.begin_call("eval", json!({ "source": source }));
        eventually("it runs", || ready.exists());
        // Its reply and this have met on the way.
        let over = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 999 } });
        topup.send_line(&over.to_string());
        let ping = topup.request("ping", json!({}));
        assert_eq!(topup.receive()["id"], ping);
        fs::write(&go, "").unwrap();
        let reply = topup.receive();
        assert_eq!(reply["id"], runs);
        assert_eq!(payload(&reply).0["value_repr"], "42", "{reply}");
    });
}

#[test]
fn a_long_message_on_a_slow_way_is_waited_for() {
    let home = Home::new();
    let socket = home.path().join("s");
    let mut topup = Client::start_on_socket(BYTECODE, &socket, |command| {
        command.env("HOME", home.path());
    });
    let hello = json!({ "clientInfo": { "name": "topup", "version": "0" } });
    topup.request("initialize", hello);
    topup.receive();
    // While another client waits, this one is asked whether it is there, and has 5 s.
    let _rival = UnixStream::connect(&socket).unwrap();
    let line = topup.call_line("eval", json!({ "source": "41 + 1" }));
    let (slow, last) = line.split_at(24);
    for byte in slow.bytes() {
        topup.send_bytes(&[byte]);
        std::thread::sleep(Duration::from_millis(500));
    }
    topup.send_line(last);
    let mut reply = topup.receive();
    while reply["method"] == "ping" {
        reply = topup.receive();
    }
    assert_eq!(payload(&reply).0["value_repr"], "42", "{reply}");
}

#[test]
fn progress_is_told() {
    each(it_goes_on);
}

fn it_goes_on(executable: Executable) {
    let (_user, _machine, mut near) = pair(executable);
    near.connect("far");
    near.eval_on("far", "#require \"unix\"");
    near.client
        .request("initialize", json!({ "protocolVersion": "2025-06-18" }));
    near.client.receive();
    let arguments = json!({ "source": "Unix.sleepf 1.3", "host": "far" });
    let id = near.client.request(
        "tools/call",
        json!({ "name": "eval", "arguments": arguments, "_meta": { "progressToken": "p" } }),
    );
    let mut message = near.client.receive();
    assert_eq!(message["method"], "notifications/progress", "{message}");
    while message["id"] != id {
        message = near.client.receive();
    }
    assert_eq!(message["result"]["isError"], false, "{message}");
}
