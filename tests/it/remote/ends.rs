//! What is left when this server ends.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::sshd::{children, kill, script};
use super::{Near, pair};
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

#[test]
fn an_ssh_that_ignores_the_first_signal_ends_at_the_second() {
    each(|executable| {
        let (user, _machine, _near) = pair(executable);
        // What is ignored is inherited; the script is what was started.
        let text = format!("trap '' TERM\n{} \"$@\"", user.command());
        script(&user.path("stubborn"), &text);
        let stubborn = user.path("stubborn").display().to_string();
        let mut near = Near::start_with(executable, &user, &[("TOPUP_SSH", &stubborn)]);
        let start = json!({ "host": "far", "remote_socket": "~/own.sock" });
        near.done("start_session", start);
        assert_eq!(
            near.home.processes().len(),
            3,
            "topup, the script and its ssh"
        );
        near.done("restart_session", json!({ "host": "far" }));
        near.done("stop_session", json!({ "host": "far" }));
        eventually("all of them end", || near.home.processes().len() == 1);
        eventually("none is a zombie", || {
            children(near.client.child.id()).is_empty()
        });
    });
}

#[test]
fn what_a_killed_server_has_left_is_removed_by_the_next() {
    each(|executable| {
        let (user, _machine, _near) = pair(executable);
        let place = user.path("tmp");
        let [old, new, used] =
            ["topup-ssh-old", "topup-ssh-new", "topup-ssh-used"].map(|name| place.join(name));
        for folder in [&old, &new, &used] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(old.join("s"), "").unwrap();
        fs::write(used.join("a file of somebody's"), "").unwrap();
        for folder in [&old, &used] {
            let touched = Command::new("touch")
                .args(["-d", "1 hour ago"])
                .arg(folder)
                .status();
            assert!(touched.unwrap().success());
        }
        let place = place.display().to_string();
        let mut near = Near::start_with(executable, &user, &[("TMPDIR", &place)]);
        let start = json!({ "host": "far", "remote_socket": "~/own.sock" });
        near.done("start_session", start);
        assert!(!old.exists() && new.exists() && used.exists());
        let left = fs::read_dir(user.path("tmp")).unwrap().flatten();
        let ours =
            left.filter(|entry| entry.file_name().to_string_lossy().starts_with("topup-ssh"));
        assert_eq!(ours.count(), 2);
    });
}
