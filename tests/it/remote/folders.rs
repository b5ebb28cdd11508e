//! Where files and sockets go, on each side.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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
fn a_file_that_grows_while_it_is_read_is_not_copied() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        let (here, there) = (near.home.path().join("f"), machine.home.path().join("f"));
        for file in [here, there.clone()] {
            fs::write(&file, vec![b'x'; 4 << 20]).unwrap();
            let (over, grows) = (
                AtomicBool::new(false),
                File::options().append(true).open(&file),
            );
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut grows = grows.unwrap();
                    while !over.load(Ordering::Relaxed) {
                        grows.write_all(b"x").unwrap();
                    }
                });
                let (tool, arguments) = match file == there {
                    true => ("pull_file", json!({ "host": "far", "remote_path": file })),
                    false => ("push_file", json!({ "host": "far", "local_path": file })),
                };
                // It may hold still for once.
                let refused = (0..1000).find_map(|_| {
                    let (reply, is_error) = near.call(tool, arguments.clone());
                    is_error.then_some(reply)
                });
                over.store(true, Ordering::Relaxed);
                let reply = refused.expect("a refusal");
                let said = reply["error"].as_str().unwrap();
                assert!(said.contains("its size changed"), "{said}");
            });
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
