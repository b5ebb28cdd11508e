//! Files there and back.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{Near, User, pair};
use crate::support::{Executable, each};

fn bytes(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(length as u64);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// No file is there that is half of one.
fn no_traces(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with(".tmp"), "{name}");
    }
}

#[test]
fn files_go_there_and_back() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        for (length, mode) in [(0, 0o600), (1, 0o755), (3_000_001, 0o444)] {
            let contents = bytes(length);
            let local = near.home.path().join("data.bin");
            let _ = fs::remove_file(&local);
            fs::write(&local, &contents).unwrap();
            fs::set_permissions(&local, fs::Permissions::from_mode(mode)).unwrap();
            // To the folder of transfers, from a path that this side resolves.
            let reply = near.done(
                "push_file",
                json!({ "host": "far", "local_path": "~/data.bin" }),
            );
            let there = machine.home.path().join(".topup/xfer/data.bin");
            assert_eq!(reply, json!({ "remote_path": there, "bytes": length }));
            assert_eq!(fs::read(&there).unwrap(), contents);
            assert_eq!(
                fs::metadata(&there).unwrap().permissions().mode() & 0o777,
                mode
            );
            // To a place that the far side resolves.
            let named = json!({ "host": "far", "local_path": local, "remote_path": "~/named" });
            near.done("push_file", named);
            assert_eq!(
                fs::read(machine.home.path().join("named")).unwrap(),
                contents
            );
            let reply = near.done(
                "pull_file",
                json!({ "host": "far", "remote_path": "~/named" }),
            );
            let here = near.home.path().join(".topup/xfer/named");
            assert_eq!(reply, json!({ "local_path": here, "bytes": length }));
            assert_eq!(fs::read(&here).unwrap(), contents);
            assert_eq!(
                fs::metadata(&here).unwrap().permissions().mode() & 0o777,
                mode
            );
            let named = json!({ "host": "far", "remote_path": there, "local_path": "~/back" });
            near.done("pull_file", named);
            assert_eq!(fs::read(near.home.path().join("back")).unwrap(), contents);
        }
        no_traces(&machine.home.path().join(".topup/xfer"));
        no_traces(&near.home.path().join(".topup/xfer"));
    });
}

#[test]
fn what_cannot_be_copied_is_told() {
    each(it_cannot_be_copied);
}

fn it_cannot_be_copied(executable: Executable) {
    let (_user, machine, mut near) = pair(executable);
    near.connect("far");
    let (here, there) = (
        near.home.path().to_path_buf(),
        machine.home.path().to_path_buf(),
    );
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    for side in [&here, &there] {
        fs::write(side.join("file"), "old").unwrap();
        fs::create_dir(side.join("folder")).unwrap();
        symlink("nowhere", side.join("dangling")).unwrap();
        symlink("file", side.join("link")).unwrap();
        // Nobody but root reads the one, nobody at all the other.
        match is_root {
            true => symlink("/proc/self/mem", side.join("unreadable")).unwrap(),
            false => {
                let file = File::create(side.join("unreadable")).unwrap();
                let nobody = fs::Permissions::from_mode(0o000);
                file.set_permissions(nobody).unwrap();
            }
        }
        let fifo = Command::new("mkfifo").arg(side.join("fifo")).status();
        assert!(fifo.unwrap().success());
    }
    let said = near.refused(
        "push_file",
        json!({ "host": "local", "local_path": "~/file" }),
        "route",
    );
    assert!(said.contains("this machine"), "{said}");
    near.refused(
        "push_file",
        json!({ "host": "nosuch", "local_path": "~/file" }),
        "route",
    );
    for (file, says) in [
        ("none", "there is no such file"),
        ("folder", "a folder"),
        ("dangling", "a symbolic link to what is not there"),
        ("fifo", "not a regular file"),
        ("unreadable", "os error"),
    ] {
        let path = format!("~/{file}");
        let said = near.refused(
            "push_file",
            json!({ "host": "far", "local_path": path }),
            "transfer",
        );
        assert!(
            said.contains(says) && said.contains(here.to_str().unwrap()),
            "{said}"
        );
        let said = near.refused(
            "pull_file",
            json!({ "host": "far", "remote_path": path }),
            "transfer",
        );
        assert!(
            said.contains(says)
                && said.starts_with("far: ")
                && said.contains(there.to_str().unwrap()),
            "{said}"
        );
    }
    for (place, says) in [
        ("~/none/file", "make it first"),
        ("~/folder", "there is a folder"),
        ("~/dangling", "a symbolic link to what is not there"),
        ("~/fifo", "no file"),
        ("/dev/full", "no file"),
    ] {
        let push = json!({ "host": "far", "local_path": "~/file", "remote_path": place });
        let said = near.refused("push_file", push, "transfer");
        assert!(
            said.contains(says) && said.starts_with("far: "),
            "{place}: {said}"
        );
        let pull = json!({ "host": "far", "remote_path": "~/file", "local_path": place });
        let said = near.refused("pull_file", pull, "transfer");
        assert!(said.contains(says), "{place}: {said}");
    }
    // Through a link, which stays.
    fs::write(here.join("new"), "new").unwrap();
    near.done(
        "push_file",
        json!({ "host": "far", "local_path": "~/new", "remote_path": "~/link" }),
    );
    assert!(there.join("link").is_symlink());
    assert_eq!(fs::read_to_string(there.join("file")).unwrap(), "new");
    // Files that say they are empty and are not.
    let said = near.refused(
        "push_file",
        json!({ "host": "far", "local_path": "/proc/self/status" }),
        "transfer",
    );
    assert!(said.contains("the kernel makes"), "{said}");
    let said = near.refused(
        "pull_file",
        json!({ "host": "far", "remote_path": "/proc/self/status" }),
        "transfer",
    );
    assert!(said.contains("the kernel makes"), "{said}");
    for side in [&here, &there] {
        no_traces(side);
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    each(the_disk_is_full);
}

fn the_disk_is_full(executable: Executable) {
    let (_user, machine, mut near) = pair(executable);
    near.connect("far");
    let disk = machine.home.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&disk)
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        return;
    }
    let file = near.home.path().join("big");
    fs::write(disk.join("big"), "old").unwrap();
    fs::write(&file, bytes(3 << 20)).unwrap();
    let push = json!({ "host": "far", "local_path": file, "remote_path": "~/disk/big" });
    let said = near.refused("push_file", push, "transfer");
    let there = fs::read_to_string(disk.join("big"));
    let entries = fs::read_dir(&disk).unwrap().count();
    let _ = Command::new("umount").arg(&disk).status();
    assert!(
        said.contains("No space left on device") && said.contains("nothing was written"),
        "{said}"
    );
    assert_eq!((there.unwrap().as_str(), entries), ("old", 1));
}

#[test]
fn the_limit_is_that_of_the_stricter_side() {
    each(limits);
}

fn limits(executable: Executable) {
    let user = User::new();
    let machine = user.machine(executable);
    let small = user.machine_limited(
        executable,
        &[("TOPUP_XFER_MAX_BYTES", "1000"), ("TOPUP_XFER_DIR", "off")],
    );
    user.configure(
        &[("far", machine.sshd.port), ("small", small.sshd.port)],
        "",
    );
    let more = [("TOPUP_XFER_MAX_BYTES", "5000"), ("TOPUP_XFER_DIR", "off")];
    let mut near = Near::start_with(executable, &user, &more);
    near.connect("far");
    near.connect("small");
    // Sparse: were it read, that would be noticed.
    for home in [near.home.path(), machine.home.path()] {
        File::create(home.join("huge"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
    }
    let huge = json!({ "host": "far", "local_path": "~/huge", "remote_path": "~/x" });
    let said = near.refused("push_file", huge, "transfer");
    assert!(
        said.contains("at most 5000 are copied (TOPUP_XFER_MAX_BYTES here)"),
        "{said}"
    );
    let huge = json!({ "host": "far", "remote_path": "~/huge", "local_path": "~/x" });
    let said = near.refused("pull_file", huge, "transfer");
    assert!(
        said.contains("at most 5000") && said.contains("here"),
        "{said}"
    );
    fs::write(near.home.path().join("file"), bytes(2000)).unwrap();
    let push = json!({ "host": "small", "local_path": "~/file", "remote_path": "~/x" });
    let said = near.refused("push_file", push, "transfer");
    assert!(
        said.contains("at most 1000 are copied (TOPUP_XFER_MAX_BYTES there)"),
        "{said}"
    );
    fs::write(small.home.path().join("file"), bytes(2000)).unwrap();
    let pull = json!({ "host": "small", "remote_path": "~/file", "local_path": "~/x" });
    let said = near.refused("pull_file", pull, "transfer");
    assert!(
        said.contains("at most 1000") && said.contains("there"),
        "{said}"
    );
    // Without folders of transfers each file is to be named.
    fs::write(near.home.path().join("little"), "1").unwrap();
    let said = near.refused(
        "push_file",
        json!({ "host": "small", "local_path": "~/little" }),
        "transfer",
    );
    assert!(said.contains("remote_path"), "{said}");
    let said = near.refused(
        "pull_file",
        json!({ "host": "far", "remote_path": "~/bin/topup" }),
        "transfer",
    );
    assert!(said.contains("local_path"), "{said}");
    let (list, _) = {
        near.client.request("tools/list", json!({}));
        (near.client.receive(), ())
    };
    assert!(
        !list.to_string().contains("_blob"),
        "they are not for clients"
    );
}
