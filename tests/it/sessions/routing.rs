//! Which session a call goes to, and what it waits for.

use std::fs;

use serde_json::{Value, json};

use super::{SEGFAULT, Server, eventually};
use crate::support::{BYTECODE, assert_timed_out, each, payload};

#[test]
fn every_routed_tool_runs_in_the_session() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.call_in("a", "eval", json!({ "source": "let twice x = 2 * x" }));
        let reply = server.call_in(
            "a",
            "eval_batch",
            json!({ "sources": ["let y = 21", "twice y"] }),
        );
        assert_eq!(reply["results"][1]["value_repr"], "42");
        assert_eq!(server.call_in("a", "env", json!({}))["total"], 2);
        assert_eq!(
            server.call_in("a", "lookup", json!({ "name": "twice" }))["type"],
            "int -> int"
        );
        assert_eq!(
            server.call_in("a", "typecheck", json!({ "source": "twice" }))["types"][0],
            "- : int -> int"
        );
        assert_eq!(
            server.call_in("a", "complete", json!({ "source": "twi" }))["completions"][0]["name"],
            "twice"
        );
        assert_eq!(
            server.call_in("a", "checkpoint", json!({ "label": "all" }))["phrases"],
            3
        );
        server.call_in("a", "restore", json!({ "label": "all" }));
        assert_eq!(server.call_in("a", "cancel", json!({}))["cancelled"], false);
        let out = tempfile::tempdir().unwrap();
        server.call_in(
            "a",
            "eval",
            json!({ "source": "let main () = print_int (twice y)" }),
        );
        let reply = server.call_in(
            "a",
            "compile_to_binary",
            json!({ "entry": "main", "out": out.path() }),
        );
        let binary = reply["binary_path"].as_str().unwrap();
        let output = std::process::Command::new(binary).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "42");
        server.call_in("a", "reset", json!({}));
        assert_eq!(server.call_in("a", "env", json!({}))["total"], 0);
        let (reply, _) = server.call("env", json!({}));
        assert_eq!(reply["total"], 0, "nothing of it is in the local session");
    });
}

#[test]
fn a_wrong_route_is_told() {
    let mut server = Server::start(BYTECODE);
    server.session("a", json!({ "pool": 2 }));
    for (arguments, says) in [
        (
            json!({ "source": "1", "session": "b" }),
            "known: local, a, a.1",
        ),
        (
            json!({ "source": "1", "session": "a", "host": "h" }),
            "exclude each other",
        ),
        (
            json!({ "source": "1", "session": "a.2" }),
            "known: local, a, a.1",
        ),
        (
            json!({ "source": "1", "session": "a", "host": "local" }),
            "exclude each other",
        ),
        (
            json!({ "source": "1", "session": "local", "host": "h" }),
            "exclude each other",
        ),
        (
            json!({ "source": "1", "session": "local", "host": "local" }),
            "exclude each other",
        ),
        (json!({ "source": "1", "host": "h" }), "no host \"h\""),
    ] {
        let (reply, is_error) = server.call("eval", arguments);
        assert!(is_error);
        assert_eq!(reply["phase"], "route", "{reply}");
        assert!(reply["error"].as_str().unwrap().contains(says), "{reply}");
    }
    for name in ["session", "host"] {
        let (reply, _) = server.call("eval", json!({ "source": "1", name: "local" }));
        assert_eq!(reply["value_repr"], "1", "{reply}");
    }
}

#[test]
fn sessions_run_at_the_same_time_and_each_in_order() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.session("b", json!({}));
        let [first, second] = ["first", "second"].map(|name| {
            let path = server.home.path().join(name);
            path.to_str().unwrap().to_string()
        });
        // Each waits for the other: one after the other they would never end.
        let meet = |mine: &str, theirs: &str| {
            format!(
                "close_out (open_out {mine:?}); while not (Sys.file_exists {theirs:?}) do () done"
            )
        };
        let a = json!({ "source": meet(&first, &second), "session": "a", "timeout": 30 });
        let b = json!({ "source": meet(&second, &first), "session": "b", "timeout": 30 });
        let after = json!({ "source": "\"after\"", "session": "a" });
        let ids = [a, after, b].map(|call| server.client.begin_call("eval", call));
        let mut order = Vec::new();
        for _ in 0..3 {
            let reply = server.client.receive();
            assert!(payload(&reply).0["error"].is_null(), "{reply}");
            order.push(reply["id"].as_u64().unwrap());
        }
        let place = |id| order.iter().position(|o| *o == id).unwrap();
        assert!(place(ids[0]) < place(ids[1]), "one session in order");
    });
}

#[test]
fn cancellation_reaches_the_right_session() {
    each(|executable| {
        let mut server = Server::start(executable);
        server.session("a", json!({}));
        server.session("b", json!({}));
        let run = |server: &mut Server, session: &str| {
            let flag = server.home.path().join(format!("runs-{session}"));
            let _ = fs::remove_file(&flag);
            let source = format!(
                "close_out (open_out {:?}); while true do () done",
                flag.display()
            );
            let id = server
                .client
                .begin_call("eval", json!({ "source": source, "session": session }));
            eventually("it runs", || flag.exists());
            id
        };
        let expect_cancelled = |server: &mut Server, id: u64| {
            let reply = server.client.receive();
            assert_eq!(reply["id"], id, "{reply}");
            assert_timed_out(&payload(&reply).0);
        };
        let notify = |params: Value| {
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
                .to_string()
        };
        let (a, b) = (run(&mut server, "a"), run(&mut server, "b"));
        // The tool.
        let cancel = server
            .client
            .begin_call("cancel", json!({ "session": "b" }));
        let replies = [server.client.receive(), server.client.receive()];
        let of = |id: u64| payload(replies.iter().find(|r| r["id"] == id).expect("a reply")).0;
        assert_eq!(of(cancel)["cancelled"], true);
        assert_timed_out(&of(b));
        // A notification that names the session.
        server.client.send_line(&notify(json!({ "session": "a" })));
        expect_cancelled(&mut server, a);
        // A local evaluation is no target of that.
        let a = run(&mut server, "a");
        server.client.send_line(&notify(json!({})));
        server
            .client
            .send_line(&notify(json!({ "session": "nosuch" })));
        assert_eq!(server.client.eval("1 + 1")["value_repr"], "2");
        // By its id: it gets no reply, and what waits behind it begins.
        let flag = server.home.path().join("never");
        let queued = json!({ "source": format!("close_out (open_out {:?})", flag.display()), "session": "a" });
        let queued = server.client.begin_call("eval", queued);
        let last = server
            .client
            .begin_call("eval", json!({ "source": "\"last\"", "session": "a" }));
        server
            .client
            .send_line(&notify(json!({ "requestId": queued })));
        server.client.send_line(&notify(json!({ "requestId": a })));
        let reply = server.client.receive();
        assert_eq!(reply["id"], last, "{reply}");
        assert!(!flag.exists(), "a cancelled queued call never starts");
    });
}

#[test]
fn progress_is_told_of_routed_calls_and_starts() {
    let mut server = Server::start(BYTECODE);
    server
        .client
        .request("initialize", json!({ "protocolVersion": "2025-06-18" }));
    server.client.receive();
    let file = server.file("slow.ml", "#require \"unix\";;\nUnix.sleepf 1.3;;");
    for (tool, arguments) in [
        (
            "start_local_session",
            json!({ "session": "a", "prewarm": file }),
        ),
        (
            "eval",
            json!({ "source": "Unix.sleepf 1.3", "session": "a" }),
        ),
    ] {
        let id = server.client.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } }),
        );
        let first = server.client.receive();
        assert_eq!(first["method"], "notifications/progress", "{first}");
        assert_eq!(first["params"]["progressToken"], "p");
        let mut last = first;
        while last["id"] != id {
            last = server.client.receive();
        }
        assert_eq!(last["result"]["isError"], false, "{last}");
    }
}

#[test]
fn progress_rises_over_an_end_of_the_local_toplevel() {
    let mut server = Server::start(BYTECODE);
    server
        .client
        .request("initialize", json!({ "protocolVersion": "2025-06-18" }));
    server.client.receive();
    server.session("a", json!({}));
    let go = server.home.path().join("go");
    let source = format!("while not (Sys.file_exists {go:?}) do () done");
    let id = server.client.request(
        "tools/call",
        json!({ "name": "eval", "arguments": { "source": source, "session": "a" }, "_meta": { "progressToken": "p" } }),
    );
    let told = |message: &Value| message["params"]["progress"].as_f64();
    let mut latest = 0.0;
    let mut crash = None;
    // Twice before the crash, twice after it.
    let mut rest = 4;
    while rest > 0 {
        let message = server.client.receive();
        let Some(progress) = told(&message) else {
            assert_eq!(Some(message["id"].as_u64().unwrap()), crash, "{message}");
            continue;
        };
        assert!(progress > latest, "{progress} after {latest}");
        latest = progress;
        rest -= 1;
        if rest == 2 {
            crash = Some(
                server
                    .client
                    .begin_call("eval", json!({ "source": SEGFAULT })),
            );
        }
    }
    fs::write(&go, "").unwrap();
    let mut last = server.client.receive();
    while last["id"] != id {
        last = server.client.receive();
    }
}
