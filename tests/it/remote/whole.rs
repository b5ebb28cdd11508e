//! A piece of work on two machines.

use std::fs;

use serde_json::json;

use super::sshd::{descendants, kill};
use super::{Near, User};
use crate::sessions::eventually;
use crate::support::{each, library, payload};

#[test]
fn work_on_two_hosts() {
    each(|executable| {
        let user = User::new();
        let machines = [user.machine(executable), user.machine(executable)];
        let ports = [machines[0].sshd.port, machines[1].sshd.port];
        user.configure(&[("one", ports[0]), ("two", ports[1])], "");
        let mut near = Near::start(executable, &user);
        near.connect("one");
        near.connect("two");
        // Each waits for the other: one after the other they would never end.
        let flags = machines
            .each_ref()
            .map(|machine| machine.home.path().join("flag"));
        let meet = |mine: usize| {
            format!(
                "close_out (open_out {:?}); while not (Sys.file_exists {:?}) do () done; {mine}",
                flags[mine],
                flags[1 - mine]
            )
        };
        for (number, host) in ["one", "two"].into_iter().enumerate() {
            near.client.begin_call(
                "eval",
                json!({ "source": meet(number), "host": host, "timeout": 30 }),
            );
        }
        for _ in 0..2 {
            let (reply, is_error) = payload(&near.client.receive());
            assert!(!is_error, "{reply}");
        }
        // A module goes to one of them, and is loaded there.
        library(near.home.path(), "geo", "let area w h = w * h");
        let archive = near.home.path().join(executable.archive("geo"));
        for file in [archive, near.home.path().join("geo.cmi")] {
            near.done("push_file", json!({ "host": "one", "local_path": file }));
        }
        let there = machines[0]
            .home
            .path()
            .join(".topup/xfer")
            .join(executable.archive("geo"));
        near.done("load", json!({ "host": "one", "path": there }));
        assert_eq!(near.value_on("one", "Geo.area 6 7"), "42");
        assert!(near.eval_on("two", "Geo.area 6 7")["error"].is_string());
        // Its result comes back.
        let result = machines[0].home.path().join("result");
        let write = format!(
            "let c = open_out {result:?} in output_string c (string_of_int (Geo.area 6 7)); close_out c"
        );
        near.value_on("one", &write);
        near.done(
            "pull_file",
            json!({ "host": "one", "remote_path": "~/result" }),
        );
        let here = near.home.path().join(".topup/xfer/result");
        assert_eq!(fs::read_to_string(here).unwrap(), "42");
        // One tunnel is cut in the middle of an evaluation.
        near.eval_on("two", "let x = 41");
        let ready = machines[1].home.path().join("ready");
        let source = format!("close_out (open_out {ready:?}); while true do () done");
        let id = near
            .client
            .begin_call("eval", json!({ "source": source, "host": "two" }));
        eventually("it runs", || ready.exists());
        let tunnels = descendants(near.client.child.id());
        let to_two = tunnels.into_iter().find(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split('\0').any(|word| word == "two")
        });
        kill("TERM", to_two.expect("a tunnel"));
        let reply = near.client.receive();
        assert_eq!(reply["id"], id);
        assert_eq!(payload(&reply).0["phase"], "connect", "{reply}");
        assert_eq!(
            near.value_on("one", "Geo.area 2 3"),
            "6",
            "the other goes on"
        );
        near.done("cancel", json!({ "host": "two" }));
        assert_eq!(near.value_on("two", "x + 1"), "42");
    });
}
