//! Where files and sockets go, on each side.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::{Near, User, pair};
use crate::support::each;

#[test]
fn files_go_to_the_folders_of_transfers() {
    each(|executable| {
        let user = User::new();
        let machine = user.machine_limited(executable, &[("TOPUP_XFER_DIR", "~/files/in")]);
        user.configure(&[("far", machine.sshd.port)], "");
        let place = user.path("place").join("deep");
        let place = place.to_str().unwrap();
        let mut near = Near::start_with(executable, &user, &[("TOPUP_XFER_DIR", place)]);
        near.connect("far");
        let file = near.home.path().join("file");
        fs::write(&file, "text").unwrap();
        let reply = near.done(
            "push_file",
            json!({ "host": "far", "local_path": "~/file" }),
        );
        let there = machine.home.path().join("files/in/file");
        assert_eq!(reply["remote_path"], there.to_str().unwrap());
        assert_eq!(fs::read_to_string(&there).unwrap(), "text");
        let pull = json!({ "host": "far", "remote_path": "~/files/in/file" });
        let reply = near.done("pull_file", pull);
        assert_eq!(reply["local_path"], format!("{place}/file"));
        // They are no folders.
        fs::remove_dir_all(machine.home.path().join("files")).unwrap();
        fs::write(machine.home.path().join("files"), "").unwrap();
        let push = json!({ "host": "far", "local_path": "~/file" });
        let said = near.refused("push_file", push, "transfer");
        assert!(
            said.starts_with("far: ") && said.contains("files/in"),
            "{said}"
        );
        fs::remove_dir_all(user.path("place")).unwrap();
        fs::write(user.path("place"), "").unwrap();
        let pull = json!({ "host": "far", "remote_path": "/etc/hostname" });
        let said = near.refused("pull_file", pull, "transfer");
        assert!(said.contains(place), "{said}");
    });
}

#[test]
fn what_the_kernel_makes_up_is_no_file() {
    each(|executable| {
        let (_user, _machine, mut near) = pair(executable);
        near.connect("far");
        let pull = json!({ "host": "far", "remote_path": "/proc/self/status" });
        let push = json!({ "host": "far", "local_path": "/proc/self/status" });
        for (tool, arguments) in [("pull_file", pull), ("push_file", push)] {
            let said = near.refused(tool, arguments, "transfer");
            assert!(said.contains("makes up"), "{said}");
        }
    });
}

#[test]
fn a_socket_is_in_ones_own_home() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        let start = |socket: &str| json!({ "host": "far", "remote_socket": socket });
        let said = near.refused("start_session", start("~nobody/s"), "connect");
        assert!(said.contains("your own home alone"), "{said}");
        // Its folder is made, for this user alone.
        near.done("start_session", start("~/run/deep/s"));
        let mode = fs::metadata(machine.home.path().join("run/deep"))
            .unwrap()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(near.value_on("far", "1 + 1"), "2");
    });
}
