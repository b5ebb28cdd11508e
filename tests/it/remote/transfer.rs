//! Files that take their time, and files that are taken back.

use std::fs;

use serde_json::{Value, json};

use super::network::{Mode, Network};
use super::{Machine, Near, User, pair};
use crate::support::{Executable, each, payload};

const SIZE: usize = 12 << 20;

fn held(executable: Executable) -> (User, Machine, Network, Near) {
    let user = User::new();
    let machine = user.machine(executable);
    let network = Network::to(machine.sshd.port);
    user.configure(&[("far", network.port)], "");
    let mut near = Near::start(executable, &user);
    near.client
        .request("initialize", json!({ "protocolVersion": "2025-06-18" }));
    near.client.receive();
    near.connect("far");
    for home in [near.home.path(), machine.home.path()] {
        fs::write(home.join("big"), vec![b'x'; SIZE]).unwrap();
    }
    (user, machine, network, near)
}

fn copy(tool: &str, to: &str) -> Value {
    let (local, remote) = match tool {
        "push_file" => ("~/big", to),
        _ => (to, "~/big"),
    };
    json!({ "host": "far", "local_path": local, "remote_path": remote })
}

#[test]
fn a_long_transfer_says_that_it_goes_on() {
    each(|executable| {
        let (_user, machine, network, mut near) = held(executable);
        for (tool, to) in [
            ("push_file", machine.home.path()),
            ("pull_file", near.home.path()),
        ] {
            network.becomes(Mode::Holds);
            let arguments = copy(tool, "~/copy");
            let call =
                json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
            let id = near.client.request("tools/call", call);
            let message = near.client.receive();
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "p");
            network.becomes(Mode::Passes);
            let mut message = near.client.receive();
            while message["id"] != id {
                message = near.client.receive();
            }
            assert_eq!(message["result"]["isError"], false, "{message}");
            assert_eq!(fs::metadata(to.join("copy")).unwrap().len(), SIZE as u64);
        }
    });
}

#[test]
fn a_transfer_that_is_taken_back_leaves_nothing() {
    each(|executable| {
        let (_user, machine, network, mut near) = held(executable);
        let homes = [machine.home.path(), near.home.path()].map(|home| home.to_path_buf());
        for tool in ["push_file", "pull_file"] {
            network.becomes(Mode::Holds);
            let ids = ["~/one", "~/two"].map(|to| near.client.begin_call(tool, copy(tool, to)));
            // The second never gets its turn.
            for id in ids.into_iter().rev() {
                let params = json!({ "requestId": id });
                let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
                near.client.send_line(&cancelled.to_string());
            }
            // Nothing is said of them, and what comes after goes on.
            let last = near
                .client
                .begin_call("eval", json!({ "source": "1 + 1", "host": "far" }));
            network.becomes(Mode::Passes);
            let reply = near.client.receive();
            assert_eq!(reply["id"], last, "{reply}");
            for home in &homes {
                let names = fs::read_dir(home)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name());
                for name in names.map(|name| name.into_string().unwrap()) {
                    assert!(
                        name != "two" && name != "one" && !name.ends_with(".tmp"),
                        "{name}"
                    );
                }
            }
        }
        near.done("push_file", copy("push_file", "~/three"));
    });
}

#[test]
fn a_connection_that_ends_amid_a_transfer_leaves_the_old_file() {
    each(|executable| {
        let (_user, mut machine, network, mut near) = held(executable);
        for home in [near.home.path(), machine.home.path()] {
            fs::write(home.join("copy"), "old").unwrap();
        }
        for tool in ["push_file", "pull_file"] {
            network.becomes(Mode::Holds);
            let id = near.client.begin_call(tool, copy(tool, "~/copy"));
            machine.sshd.stop();
            network.becomes(Mode::Passes);
            let reply = near.client.receive();
            assert_eq!(reply["id"], id);
            assert_eq!(
                crate::support::payload(&reply).0["phase"],
                "connect",
                "{reply}"
            );
            for home in [near.home.path(), machine.home.path()] {
                assert_eq!(fs::read_to_string(home.join("copy")).unwrap(), "old");
            }
            machine.sshd.start_again();
        }
        near.done("push_file", copy("push_file", "~/copy"));
        let there = machine.home.path().join("copy");
        assert_eq!(fs::metadata(there).unwrap().len(), SIZE as u64);
    });
}

#[test]
fn a_path_is_a_path_whatever_is_in_it() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        fs::write(near.home.path().join("file"), "text").unwrap();
        for name in [
            "a b",
            "'\"'",
            "$(touch flag)",
            "`touch flag`",
            "a\nb",
            "-rf",
            "~",
            "%s;&|*?",
            "é\u{1b}",
        ] {
            let push = json!({ "host": "far", "local_path": "~/file", "remote_path": format!("~/{name}") });
            near.done("push_file", push);
            assert_eq!(
                fs::read_to_string(machine.home.path().join(name)).unwrap(),
                "text"
            );
            let pull = json!({ "host": "far", "remote_path": format!("~/{name}") });
            near.done("pull_file", pull);
            let here = near.home.path().join(".topup/xfer").join(name);
            assert_eq!(fs::read_to_string(here).unwrap(), "text", "{name:?}");
        }
        for path in ["", "..", "/", "~", "~/..", "a\0b"] {
            let pull = json!({ "host": "far", "remote_path": path });
            near.refused("pull_file", pull, "transfer");
            let push = json!({ "host": "far", "local_path": "~/file", "remote_path": path });
            near.refused("push_file", push, "transfer");
        }
        assert!(!machine.home.path().join("flag").exists());
    });
}

#[test]
fn files_and_evaluations_take_their_turns() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        let there = machine.home.path().join("file");
        let [here, back] = ["here", "back"].map(|name| near.home.path().join(name));
        let write = |text: &str| {
            format!(
                "let f = open_out_bin {there:?};; for _ = 1 to 1_000_000 do output_string f {text:?} done;; close_out f"
            )
        };
        let read = format!("let f = open_in_bin {there:?};; let c = input_char f;; close_in f");
        fs::write(&here, "p".repeat(4_000_000)).unwrap();
        for round in 0..6 {
            let on_far = |source: &str| json!({ "host": "far", "source": source });
            let push = json!({ "host": "far", "local_path": here, "remote_path": there });
            let pull = json!({ "host": "far", "remote_path": there, "local_path": back });
            let show = on_far("c");
            // None waits for the one before it.
            let calls = [
                ("eval", on_far(&write("a"))),
                ("pull_file", pull),
                ("eval", on_far(&write("b"))),
                ("push_file", push),
                ("eval", on_far(&read)),
                ("eval", show),
            ];
            let ids = calls.map(|(tool, arguments)| near.client.begin_call(tool, arguments));
            let mut shown = None;
            for _ in ids {
                let reply = near.client.receive();
                let (answer, is_error) = payload(&reply);
                assert!(!is_error, "round {round}: {answer}");
                if reply["id"] == ids[5] {
                    shown = answer["value_repr"].as_str().map(str::to_string);
                }
            }
            assert_eq!(shown.as_deref(), Some("'p'"), "round {round}");
            let pulled = fs::read(&back).unwrap();
            assert_eq!(pulled.len(), 1_000_000, "round {round}");
            assert!(pulled.iter().all(|byte| *byte == b'a'), "round {round}");
        }
    });
}
