//! The protocol, on memory connections to a server in this process.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use topup::protocol::mcp::Negotiation;
use topup::reexec::Beginning;
use topup::router::Router;
use topup::server::Resumed;
use topup::session::{Hosts, Launcher, Registry, Session};
use topup::transport::{Peer, memory};
use topup::{Evaluator, Settings, Variant, server};

use crate::support::payload;

/// There is one OCaml runtime in a process; every test's server uses it.
fn router() -> Arc<Router> {
    static ROUTER: OnceLock<Arc<Router>> = OnceLock::new();
    let start = || {
        let evaluator =
            Evaluator::start(Variant::Bytecode, None, Settings::default()).expect("a thread");
        let settings = Settings::default();
        let (remote, transfer) = (settings.remote.clone(), settings.transfer.clone());
        let hosts = Hosts::new(Beginning::take(), remote, transfer);
        let launcher = Launcher::new(Beginning::take(), settings);
        let local = Arc::new(Session::local(evaluator));
        Arc::new(Router::new(local, Registry::new(launcher), hosts))
    };
    Arc::clone(ROUTER.get_or_init(start))
}

/// Runs `test` as the client of a server of its own; the others' servers wait meanwhile.
pub fn with_client<F: Future>(test: impl FnOnce(Peer) -> F) {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (connection, peer) = memory();
        let served = tokio::spawn(async {
            let (_ends, mut ends) = mpsc::unbounded_channel();
            let (negotiation, shutdown) = (Negotiation::default(), CancellationToken::new());
            let resumed = Resumed::default();
            server::serve(
                connection,
                negotiation,
                router(),
                shutdown,
                &mut ends,
                resumed,
            )
            .await
        });
        test(peer).await;
        served.await.expect("the server ends in peace");
    });
}

pub async fn receive(peer: &mut Peer) -> Value {
    serde_json::from_str(&peer.receive().await.expect("one more line")).expect("JSON")
}

pub async fn ask(peer: &mut Peer, line: impl ToString) -> Value {
    peer.send(&line.to_string()).await;
    receive(peer).await
}

pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({ "name": tool, "arguments": arguments }),
    )
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub async fn handshake(peer: &mut Peer, revision: &str) -> Value {
    let params = json!({ "protocolVersion": revision });
    ask(peer, request(1, "initialize", params)).await["result"].clone()
}

/// What must not be answered: the next answer is that of a ping behind it.
async fn unanswered(peer: &mut Peer, line: impl ToString) {
    peer.send(&line.to_string()).await;
    let reply = ask(peer, request(99, "ping", json!({}))).await;
    assert_eq!(reply, json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
}

#[test]
fn initialize_settles_the_revision() {
    with_client(|mut peer| async move {
        for (asked, given) in [
            (json!("2024-11-05"), "2024-11-05"),
            (json!("2025-03-26"), "2025-03-26"),
            (json!("2025-06-18"), "2025-06-18"),
            (json!("2025-11-25"), "2025-11-25"),
            (json!("2099-01-01"), "2024-11-05"),
            (json!(7), "2024-11-05"),
        ] {
            let reply = ask(
                &mut peer,
                request(1, "initialize", json!({ "protocolVersion": asked })),
            )
            .await;
            let result = &reply["result"];
            assert_eq!(result["protocolVersion"], given);
            assert_eq!(result["capabilities"], json!({ "tools": {} }));
            assert_eq!(
                result["serverInfo"],
                json!({ "name": "topup", "version": "0.1.0" })
            );
            let instructions = result["instructions"].as_str().expect("instructions");
            assert!((100..2048).contains(&instructions.len()));
        }
        unanswered(
            &mut peer,
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        )
        .await;
    });
}

#[test]
fn unknown_methods_are_answered_at_once() {
    with_client(|mut peer| async move {
        for method in ["resources/list", "prompts/list", "x"] {
            let reply = ask(&mut peer, request(1, method, json!({}))).await;
            assert_eq!(reply["error"]["code"], -32601, "{reply}");
        }
        unanswered(
            &mut peer,
            json!({ "jsonrpc": "2.0", "method": "notifications/unknown" }),
        )
        .await;
    });
}

#[test]
fn bad_lines_get_one_error_each() {
    with_client(|mut peer| async move {
        for (line, code) in [
            ("{", -32700),
            ("nonsense", -32700),
            ("\"\\ud800\"", -32700),
            ("[]", -32600),
            (
                "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
                -32600,
            ),
            ("3", -32600),
            ("null", -32600),
            ("{\"id\":1,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
                -32600,
            ),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}",
                -32600,
            ),
            ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":3}", -32600),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}",
                -32602,
            ),
        ] {
            let reply = ask(&mut peer, line).await;
            assert_eq!(reply["error"]["code"], code, "{line}: {reply}");
            assert!(
                reply["error"]["message"]
                    .as_str()
                    .is_some_and(|m| !m.is_empty())
            );
            assert!(
                reply.as_object().unwrap().contains_key("id"),
                "{line}: {reply}"
            );
        }
        let deep = "[".repeat(100_000);
        assert_eq!(ask(&mut peer, deep).await["error"]["code"], -32700);
        for response in [
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}",
        ] {
            unanswered(&mut peer, response).await;
        }
        unanswered(
            &mut peer,
            "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[]}",
        )
        .await;
        unanswered(&mut peer, "   ").await;
    });
}

#[test]
fn ids_come_back_as_they_went() {
    with_client(|mut peer| async move {
        for id in [
            json!("a"),
            serde_json::from_str("12345678901234567890123").unwrap(),
            serde_json::from_str("1e2").unwrap(),
            json!(""),
            json!(-1),
            json!(1.5),
            json!(18446744073709551615u64),
        ] {
            let reply = ask(
                &mut peer,
                json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }),
            )
            .await;
            assert_eq!(reply, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
        }
    });
}

#[test]
fn tools_list_describes_every_tool() {
    with_client(|mut peer| async move {
        handshake(&mut peer, "2025-11-25").await;
        let reply = ask(&mut peer, request(1, "tools/list", json!({}))).await;
        let tools = reply["result"]["tools"].as_array().expect("tools");
        let names: Vec<_> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        let rows: Vec<_> = topup::tools::ALL.iter().map(|tool| tool.name).collect();
        assert_eq!(names, rows);
        for tool in tools {
            let schema = &tool["inputSchema"];
            assert_eq!(schema["type"], "object");
            assert_eq!(schema["additionalProperties"], false);
            for root in ["oneOf", "anyOf", "allOf", "$ref"] {
                assert!(schema.get(root).is_none(), "{root} in {tool}");
            }
            let description = tool["description"].as_str().unwrap();
            assert!((50..4096).contains(&description.len()));
            assert!(tool["title"].is_string() && tool["annotations"]["readOnlyHint"].is_boolean());
            let row = topup::tools::find(tool["name"].as_str().unwrap()).unwrap();
            for field in ["host", "session"].iter().filter(|_| row.routed) {
                assert_eq!(schema["properties"][field]["type"], "string");
            }
        }
    });
}

#[test]
fn malformed_calls_are_protocol_errors() {
    with_client(|mut peer| async move {
        for params in [
            json!({}),
            json!({ "name": 3 }),
            json!({ "name": "nosuch" }),
            json!({ "name": "eval", "arguments": [1] }),
            json!({ "name": "eval", "arguments": "source" }),
        ] {
            let reply = ask(&mut peer, request(1, "tools/call", params)).await;
            assert_eq!(reply["error"]["code"], -32602, "{reply}");
        }
    });
}

#[test]
fn bad_arguments_are_results_that_name_the_field() {
    with_client(|mut peer| async move {
        for (tool, arguments, field) in [
            ("eval", json!({}), "source"),
            ("eval", json!({ "source": null }), "source"),
            ("eval", json!({ "source": 1 }), "source"),
            ("eval", json!({ "source": "1", "timeout": 0 }), "timeout"),
            ("eval", json!({ "source": "1", "timeout": -1 }), "timeout"),
            ("eval", json!({ "source": "1", "timeout": "2" }), "timeout"),
            ("eval", json!({ "source": "1", "timout": 2 }), "timout"),
            ("eval_batch", json!({ "sources": "1" }), "sources"),
            ("eval_batch", json!({ "sources": ["1", 2] }), "sources"),
            ("env", json!({ "limit": -1 }), "limit"),
            ("env", json!({ "all": "yes" }), "all"),
            ("cancel", json!({ "now": true }), "now"),
        ] {
            let (payload, is_error) = payload(&ask(&mut peer, call(1, tool, arguments)).await);
            assert!(is_error);
            assert_eq!(payload["phase"], "arguments");
            assert!(
                payload["error"].as_str().unwrap().contains(field),
                "{payload}"
            );
        }
    });
}

#[test]
fn routes_that_lead_nowhere_say_so() {
    with_client(|mut peer| async move {
        for arguments in [
            json!({ "source": "1", "host": "a", "session": "b" }),
            json!({ "source": "1", "host": "nosuch" }),
            json!({ "source": "1", "session": "nosuch" }),
        ] {
            let (payload, is_error) = payload(&ask(&mut peer, call(1, "eval", arguments)).await);
            assert!(is_error && payload["phase"] == "route", "{payload}");
        }
        for arguments in [
            json!({ "source": "1", "host": "local" }),
            json!({ "source": "1", "session": "local" }),
            json!({ "source": "1", "host": null, "timeout": null }),
        ] {
            let (payload, is_error) = payload(&ask(&mut peer, call(1, "eval", arguments)).await);
            assert!(!is_error && payload["value_repr"] == "1", "{payload}");
        }
    });
}

#[test]
fn eval_has_its_six_keys_always() {
    with_client(|mut peer| async move {
        let reply = ask(&mut peer, call(1, "eval", json!({ "source": "" }))).await;
        let (payload, is_error) = payload(&reply);
        assert!(!is_error);
        assert_eq!(payload["value_repr"], Value::Null);
        for key in [
            "value_repr",
            "type",
            "stdout",
            "stderr",
            "warnings",
            "error",
            "elapsed_ms",
        ] {
            assert!(
                payload.as_object().unwrap().contains_key(key),
                "{key} in {payload}"
            );
        }
        for key in [
            "name",
            "earlier",
            "diagnostics",
            "notice",
            "stdout_overflow",
        ] {
            assert!(
                !payload.as_object().unwrap().contains_key(key),
                "{key} in {payload}"
            );
        }
        assert!(reply["result"].get("structuredContent").is_none());
    });
}

#[test]
fn a_batch_stops_at_the_first_error() {
    with_client(|mut peer| async move {
        let sources = json!({ "sources": ["let b = 1", "b + 1", "b + true", "let never = 1"] });
        let (batch, is_error) = payload(&ask(&mut peer, call(1, "eval_batch", sources)).await);
        assert!(!is_error);
        assert_eq!(batch["stopped_on_error"], true);
        let results = batch["results"].as_array().unwrap();
        assert_eq!(results.len(), 3);
        assert_eq!(results[1]["value_repr"], "2");
        assert!(results[2]["error"].is_string());
        let (empty, _) =
            payload(&ask(&mut peer, call(2, "eval_batch", json!({ "sources": [] }))).await);
        assert_eq!(empty, json!({ "results": [], "stopped_on_error": false }));
        let (never, _) =
            payload(&ask(&mut peer, call(3, "eval", json!({ "source": "never" }))).await);
        assert!(never["error"].is_string());
    });
}

const FOREVER: &str = "while true do () done";

fn cancelled(request: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": request } })
}

#[test]
fn the_loop_answers_while_an_evaluation_runs() {
    with_client(|mut peer| async move {
        peer.send(&call(1, "eval", json!({ "source": FOREVER })).to_string())
            .await;
        assert_eq!(ask(&mut peer, request(2, "ping", json!({}))).await["id"], 2);
        assert_eq!(
            ask(&mut peer, request(3, "tools/list", json!({}))).await["id"],
            3
        );
        let reply = ask(&mut peer, call(4, "cancel", json!({}))).await;
        assert_eq!(payload(&reply), (json!({ "cancelled": true }), false));
        let reply = receive(&mut peer).await;
        let (payload, is_error) = payload(&reply);
        assert!(is_error && reply["id"] == 1);
        assert!(
            payload["error"]
                .as_str()
                .unwrap()
                .starts_with("evaluation timed out")
        );
        assert_eq!(payload["diagnostics"][0]["kind"], "cancelled");
    });
}

#[test]
fn cancel_with_nothing_running_says_false() {
    with_client(|mut peer| async move {
        let reply = ask(&mut peer, call(1, "cancel", json!({}))).await;
        assert_eq!(payload(&reply), (json!({ "cancelled": false }), false));
    });
}

#[test]
fn a_withdrawn_call_gets_no_reply() {
    with_client(|mut peer| async move {
        peer.send(&call(1, "eval", json!({ "source": FOREVER })).to_string())
            .await;
        peer.send(&cancelled(1).to_string()).await;
        // Answered only when the first is over; its own reply would have come before.
        let reply = ask(&mut peer, call(2, "eval", json!({ "source": "1 + 1" }))).await;
        assert_eq!(reply["id"], 2);
        assert_eq!(payload(&reply).0["value_repr"], "2");
    });
}

#[test]
fn a_withdrawn_call_in_the_queue_never_starts() {
    with_client(|mut peer| async move {
        let set =
            |n: u64| call(n, "eval", json!({ "source": format!("let ran = {n}") })).to_string();
        ask(&mut peer, set(0)).await;
        peer.send(&call(1, "eval", json!({ "source": FOREVER })).to_string())
            .await;
        peer.send(&set(2)).await;
        peer.send(&cancelled(2).to_string()).await;
        peer.send(&cancelled(1).to_string()).await;
        let reply = ask(&mut peer, call(3, "eval", json!({ "source": "ran" }))).await;
        assert_eq!(payload(&reply).0["value_repr"], "0");
    });
}

#[test]
fn a_cancellation_without_a_request_interrupts_the_local_evaluation() {
    with_client(|mut peer| async move {
        for params in [
            json!({}),
            json!({ "requestId": "no such" }),
            json!({ "session": "local" }),
            json!({ "session": "local", "requestId": 1 }),
        ] {
            peer.send(&call(1, "eval", json!({ "source": FOREVER })).to_string())
                .await;
            // A ping behind it: the call has its turn before the cancellation is read.
            ask(&mut peer, request(2, "ping", json!({}))).await;
            let line =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            let reply = ask(&mut peer, line).await;
            assert_eq!(reply["id"], 1);
            assert!(
                payload(&reply).0["error"]
                    .as_str()
                    .unwrap()
                    .starts_with("evaluation timed out")
            );
        }
    });
}

#[test]
fn an_id_in_flight_is_not_taken_twice() {
    with_client(|mut peer| async move {
        peer.send(&call(1, "eval", json!({ "source": FOREVER })).to_string())
            .await;
        let reply = ask(&mut peer, request(1, "ping", json!({}))).await;
        assert_eq!(reply["error"]["code"], -32600);
        peer.send(&cancelled(1).to_string()).await;
    });
}

#[test]
fn input_that_ends_is_answered_to_the_last_request() {
    with_client(|peer| async move {
        for id in 0..20 {
            peer.send(&call(id, "eval", json!({ "source": format!("{id}") })).to_string())
                .await;
        }
        let lines = peer.finish().lines().await;
        let ids: Vec<u64> = lines
            .iter()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["id"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(ids, (0..20).collect::<Vec<_>>());
    });
}
