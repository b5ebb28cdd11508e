//! The revisions of MCP side by side: each is answered with what it has, and no more.

use serde_json::{Value, json};
use topup::protocol::revision::Revision;
use topup::transport::Peer;

use crate::protocol::{ask, call, handshake, receive, request, with_client};

/// A request of the stateless era.
fn stateless(id: u64, method: &str, mut params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    for (key, value) in meta.as_object().unwrap() {
        params["_meta"][key] = value.clone();
    }
    request(id, method, params)
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort();
    keys
}

#[test]
fn each_revision_gets_what_it_has() {
    with_client(|mut peer| async move {
        for (revision, result, tool) in [
            (
                "2024-11-05",
                &["tools"][..],
                &["description", "inputSchema", "name"][..],
            ),
            (
                "2025-03-26",
                &["tools"],
                &["annotations", "description", "inputSchema", "name"],
            ),
            (
                "2025-06-18",
                &["tools"],
                &["annotations", "description", "inputSchema", "name", "title"],
            ),
            (
                "2025-11-25",
                &["tools"],
                &["annotations", "description", "inputSchema", "name", "title"],
            ),
        ] {
            assert_eq!(
                handshake(&mut peer, revision).await["protocolVersion"],
                revision
            );
            let list = ask(&mut peer, request(1, "tools/list", json!({}))).await["result"].clone();
            assert_eq!(keys(&list), result, "{revision}");
            for descriptor in list["tools"].as_array().unwrap() {
                assert_eq!(keys(descriptor), tool, "{revision}");
            }
            let reply = ask(&mut peer, call(2, "eval", json!({ "source": "1" }))).await;
            assert_eq!(keys(&reply["result"]), ["content", "isError"]);
            assert_eq!(
                ask(&mut peer, request(3, "ping", json!({}))).await["result"],
                json!({})
            );
        }
    });
}

#[test]
fn stateless_requests_are_served_on_the_same_connection() {
    with_client(|mut peer| async move {
        handshake(&mut peer, "2024-11-05").await;
        let discover =
            ask(&mut peer, stateless(1, "server/discover", json!({}))).await["result"].clone();
        assert_eq!(
            keys(&discover),
            [
                "_meta",
                "cacheScope",
                "capabilities",
                "instructions",
                "resultType",
                "supportedVersions",
                "ttlMs"
            ]
        );
        let names: Vec<_> = Revision::ALL.iter().rev().map(|r| r.name()).collect();
        assert_eq!(discover["supportedVersions"], json!(names));
        let info = json!({ "io.modelcontextprotocol/serverInfo": { "name": "topup", "version": "0.1.0" } });
        assert_eq!(discover["_meta"], info);
        assert!(discover["instructions"].as_str().unwrap().len() < 2048);

        let list = ask(&mut peer, stateless(2, "tools/list", json!({}))).await["result"].clone();
        assert_eq!(
            keys(&list),
            ["_meta", "cacheScope", "resultType", "tools", "ttlMs"]
        );
        assert!(list["ttlMs"].is_u64() && list["tools"][0]["title"].is_string());
        let again = ask(&mut peer, stateless(2, "tools/list", json!({}))).await["result"].clone();
        assert_eq!(list, again);

        let params = json!({ "name": "eval", "arguments": { "source": "let shared = 1" } });
        let reply = ask(&mut peer, stateless(3, "tools/call", params)).await["result"].clone();
        assert_eq!(keys(&reply), ["_meta", "content", "isError", "resultType"]);
        assert_eq!(reply["resultType"], "complete");

        // The toplevel is the same, and the other era's replies are as they were.
        let reply = ask(
            &mut peer,
            call(4, "eval", json!({ "source": "shared + 1" })),
        )
        .await;
        assert_eq!(keys(&reply["result"]), ["content", "isError"]);
        assert_eq!(crate::support::payload(&reply).0["value_repr"], "2");
        for gone in ["initialize", "ping", "x"] {
            let reply = ask(&mut peer, stateless(5, gone, json!({}))).await;
            assert_eq!(reply["error"]["code"], -32601, "{gone}: {reply}");
        }
    });
}

#[test]
fn stateless_requests_must_say_what_they_are() {
    with_client(|mut peer| async move {
        for version in ["2025-11-25", "2099-01-01", ""] {
            let meta = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": version } });
            let reply = ask(&mut peer, request(1, "server/discover", meta)).await;
            assert_eq!(reply["error"]["code"], -32022, "{reply}");
            assert_eq!(reply["error"]["data"]["requested"], version);
            assert_eq!(reply["error"]["data"]["supported"][0], "2026-07-28");
        }
        let version = "io.modelcontextprotocol/protocolVersion";
        for meta in [
            json!({}),
            json!({ version: 3 }),
            json!({ version: "2026-07-28" }),
            json!({ version: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": 1 }),
        ] {
            let reply = ask(
                &mut peer,
                request(1, "server/discover", json!({ "_meta": meta })),
            )
            .await;
            assert_eq!(reply["error"]["code"], -32602, "{meta}: {reply}");
        }
        let reply = ask(&mut peer, request(1, "server/discover", json!({}))).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    });
}

#[test]
fn errors_about_unreadable_ids_are_as_the_revision_has_them() {
    with_client(|mut peer| async move {
        for (revision, has_null) in [
            ("2024-11-05", true),
            ("2025-03-26", true),
            ("2025-06-18", true),
            ("2025-11-25", false),
        ] {
            handshake(&mut peer, revision).await;
            for line in [
                "nonsense",
                "[]",
                r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#,
            ] {
                let reply = ask(&mut peer, line).await;
                let id = has_null.then_some(&Value::Null);
                assert_eq!(reply.get("id"), id, "{revision}: {reply}");
                assert!(reply["error"]["code"].is_i64(), "{reply}");
            }
        }
        handshake(&mut peer, "2024-11-05").await;
        ask(&mut peer, stateless(1, "tools/list", json!({}))).await;
        assert!(ask(&mut peer, "nonsense").await.get("id").is_none());
    });
}

#[test]
fn batches_are_answered_together_in_the_revision_that_has_them() {
    with_client(|mut peer| async move {
        let evaluate = |id, source: &str| call(id, "eval", json!({ "source": source }));
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let batch = json!([
            evaluate(1, "let a = 1"),
            notification,
            evaluate(2, "a + 1"),
            7
        ]);
        let reply = ask(&mut peer, &batch).await;
        assert_eq!(
            reply["error"]["code"], -32600,
            "not before its handshake: {reply}"
        );

        handshake(&mut peer, "2025-03-26").await;
        let replies = ask(&mut peer, &batch).await;
        let replies = replies.as_array().expect("an array");
        assert_eq!(replies.len(), 3);
        let with = |id: Value| replies.iter().find(|r| r["id"] == id).expect("a reply");
        assert_eq!(crate::support::payload(with(json!(2))).0["value_repr"], "2");
        assert_eq!(with(Value::Null)["error"]["code"], -32600);

        // Taken back: the others are answered when they are all done.
        let looping = evaluate(3, "while true do () done");
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } });
        let replies = ask(
            &mut peer,
            json!([looping, request(4, "ping", json!({})), cancel]),
        )
        .await;
        assert_eq!(
            replies,
            json!([{ "jsonrpc": "2.0", "id": 4, "result": {} }])
        );

        for (odd, code) in [
            (json!([]), -32600),
            (json!([request(5, "initialize", json!({}))]), -32600),
        ] {
            let reply = ask(&mut peer, odd).await;
            let error = if reply.is_array() { &reply[0] } else { &reply };
            assert_eq!(error["error"]["code"], code, "{reply}");
        }
        peer.send(&json!([{ "jsonrpc": "2.0", "method": "x" }]).to_string())
            .await;
        assert_eq!(ask(&mut peer, request(6, "ping", json!({}))).await["id"], 6);

        handshake(&mut peer, "2025-06-18").await;
        let reply = ask(&mut peer, json!([request(7, "ping", json!({}))])).await;
        assert_eq!(reply["error"]["code"], -32600, "{reply}");
    });
}

/// Notifications up to the reply, and the reply.
async fn until_reply(peer: &mut Peer) -> (Vec<Value>, Value) {
    let mut told = Vec::new();
    loop {
        let message = receive(peer).await;
        if message.get("id").is_some() {
            return (told, message);
        }
        told.push(message);
    }
}

#[test]
fn progress_is_told_as_the_revision_has_it() {
    with_client(|mut peer| async move {
        for (revision, token, has_message) in [
            ("2024-11-05", json!("a"), false),
            ("2025-03-26", json!(7), true),
        ] {
            handshake(&mut peer, revision).await;
            let mut line = call(
                1,
                "eval",
                json!({ "source": "while true do () done", "timeout": 1.8 }),
            );
            line["params"]["_meta"] = json!({ "progressToken": token });
            peer.send(&line.to_string()).await;
            let (told, reply) = until_reply(&mut peer).await;
            assert_eq!(reply["id"], 1);
            assert!(!told.is_empty(), "{revision}: nothing was told");
            let mut last = 0.0;
            for notification in &told {
                assert_eq!(notification["method"], "notifications/progress");
                let params = &notification["params"];
                assert_eq!(params["progressToken"], token);
                assert_eq!(
                    params.get("message").is_some(),
                    has_message,
                    "{notification}"
                );
                let progress = params["progress"].as_f64().unwrap();
                assert!(progress > last, "{told:?}");
                last = progress;
            }
        }
        // Nobody asked, or nobody can have asked for this.
        for meta in [
            json!({}),
            json!({ "progressToken": null }),
            json!({ "progressToken": [1] }),
        ] {
            let mut line = call(
                2,
                "eval",
                json!({ "source": "while true do () done", "timeout": 1.2 }),
            );
            line["params"]["_meta"] = meta;
            peer.send(&line.to_string()).await;
            let (told, _) = until_reply(&mut peer).await;
            assert_eq!(told, Vec::<Value>::new());
        }
    });
}
