//! What is left when this server ends.

use std::fs;

use serde_json::json;

use super::pair;
use super::sshd::kill;
use crate::sessions::eventually;
use crate::support::each;

fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| state != "Z")
}

#[test]
fn no_ssh_outlives_its_server() {
    each(|executable| {
        for signal in ["TERM", "KILL"] {
            let (_user, machine, mut near) = pair(executable);
            // Twice: the first brings up the topup there, the second finds one.
            for value in ["41", "42"] {
                near.connect("far");
                let ssh = near.tunnel();
                near.value_on("far", &format!("let x = {value}"));
                kill(signal, near.client.child.id());
                near.client.wait();
                eventually("its ssh ends", || !runs(ssh));
                near.client = super::near_at(executable, &_user, near.home.path(), &[]);
                near.connect("far");
                assert_eq!(near.value_on("far", "x"), value, "it went on there");
            }
            assert_eq!(near.home.processes().len(), 2, "topup and its ssh");
            near.done("stop_session", json!({ "host": "far", "end": true }));
            eventually("nothing is left there", || machine.topups().is_empty());
        }
    });
}
