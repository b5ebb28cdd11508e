//! Disks that are full, folders that cannot be written, files that others take away: what
//! was evaluated is there all the same, and the reply says what could not be stored.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{BYTECODE, Client, Executable, each};

/// A home whose `.topup` is on a small disk of its own, which only the server mounts.
struct SmallDisk {
    home: tempfile::TempDir,
    client: Client,
}

impl SmallDisk {
    /// `None`, and a word on stderr, where this user may not mount anything.
    fn start(executable: Executable, options: &str) -> Option<SmallDisk> {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join(".topup")).expect("made");
        let namespaces = ["--user", "--map-root-user", "--mount"];
        let may = Command::new("unshare")
            .args(namespaces)
            .args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
            .output();
        if !may.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: a disk of its own cannot be mounted here: {may:?}");
            return None;
        }
        let script = format!(
            "mount -t tmpfs -o {options} tmpfs \"$HOME/.topup\" && exec {}",
            executable.path
        );
        let unshare = Executable {
            path: "unshare",
            ..executable
        };
        let mut client = Client::start_with(unshare, |command| {
            command
                .args(namespaces)
                .args(["sh", "-c", &script])
                .env("HOME", home.path());
            // Native code is assembled where temporary files are.
            if executable == BYTECODE {
                command.env("TMPDIR", home.path().join(".topup"));
            }
        });
        client.eval("let first = 1");
        Some(SmallDisk { home, client })
    }

    /// A path below `~/.topup`, as it is seen from here.
    fn path(&self, name: &str) -> PathBuf {
        let process = format!("/proc/{}/root", self.client.child.id());
        let topup = self.home.path().join(".topup");
        Path::new(&process)
            .join(topup.strip_prefix("/").expect("absolute"))
            .join(name)
    }

    fn fill(&self) {
        let mut file = File::create(self.path("fill")).expect("made");
        while file.write_all(&[b'x'; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.path("fill")).expect("removed");
    }

    fn log(&self) -> String {
        only_file(&self.path("logs"))
    }
}

/// The text of the one file in a folder.
fn only_file(folder: &Path) -> String {
    let mut files = fs::read_dir(folder).expect("a folder");
    let file = files.next().expect("a file").expect("an entry").path();
    assert!(files.next().is_none(), "one file in {}", folder.display());
    fs::read_to_string(file).expect("text")
}

fn said(reply: &Value, field: &str, words: &[&str]) {
    let text = reply[field].as_str().unwrap_or_default();
    for word in words {
        assert!(text.contains(word), "{word:?} in {field} of {reply}");
    }
}

#[test]
fn a_full_disk_stops_nothing_and_what_was_not_stored_is_said() {
    each(|executable| {
        let Some(mut disk) = SmallDisk::start(executable, "size=5m") else {
            return;
        };
        let path = disk.path("");
        disk.fill();
        let client = &mut disk.client;
        // A phrase longer than what is left of the log's last block.
        let phrase = format!("let long = String.length \"{}\"", "l".repeat(8000));
        let reply = client.eval(&phrase);
        assert_eq!(reply["value_repr"], "8000");
        said(
            &reply,
            "notice",
            &["not in the phrase log yet", ".topup/logs/", "No space left"],
        );
        // Whoever prints.
        let reply = client
            .eval("print_string \"a\"; ignore (Sys.command \"echo b\"); prerr_string \"c\"; 1");
        assert_eq!(
            (&reply["stdout"], &reply["stderr"]),
            (&json!("ab\n"), &json!("c")),
            "{reply}"
        );
        assert_eq!(reply["value_repr"], "1");
        // Too much for a reply.
        let reply = client.eval("print_string (String.make 3_000_000 'o'); 2");
        assert_eq!(reply["value_repr"], "2", "{reply}");
        said(
            &reply,
            "stdout",
            &[
                "oooo",
                "[+2990000 bytes; not kept in ~/.topup/overflow",
                "No space left",
            ],
        );
        // Elsewhere there is a disk for what native code prints.
        if executable == BYTECODE {
            said(
                &reply,
                "notice",
                &["kept in memory", "make room in ~/.topup/overflow"],
            );
            // More than memory is to hold.
            let reply = client.eval("while true do print_string (String.make 100_000 'm') done");
            said(
                &reply,
                "error",
                &["evaluation stopped: it wrote more than 67108864 bytes"],
            );
        }
        client.eval("long");
        let (reply, is_error) = client.call("checkpoint", json!({ "label": "c" }));
        assert!(is_error && reply["phase"] == "log", "{reply}");
        said(
            &reply,
            "error",
            &[
                "checkpoints/c.ml",
                "No space left",
                "make room",
                "TOPUP_CHECKPOINT_DIR",
            ],
        );
        let leftovers: Vec<_> = fs::read_dir(path.join("checkpoints")).unwrap().collect();
        assert!(leftovers.is_empty(), "{leftovers:?}");
        assert!(!disk.log().contains("llll"), "there is no room for it");

        disk.free();
        let reply = disk
            .client
            .eval("print_string (String.make 20_000 'k'); long + first");
        assert_eq!(reply["value_repr"], "8001");
        assert!(reply.get("notice").is_none(), "{reply}");
        assert!(reply["stdout_overflow"].is_string(), "{reply}");
        let (reply, _) = disk.client.call("checkpoint", json!({ "label": "c" }));
        assert_eq!(reply["phrases"], 6, "{reply}");
        let log = disk.log();
        assert!(
            log.starts_with(&format!("let first = 1;;\n{phrase};;\nprint_string \"a\"")),
            "{log}"
        );
        assert!(log.ends_with("long + first;;\n"), "{log}");
    });
}

#[test]
fn a_disk_that_fills_while_something_prints_is_told() {
    each(|executable| {
        let Some(mut disk) = SmallDisk::start(executable, "size=6m") else {
            return;
        };
        let reply = disk
            .client
            .eval("let before = 1;; print_string (String.make 7_000_000 'x');; let never = 2");
        // As in a plain toplevel that prints to such a disk.
        said(&reply, "error", &["Sys_error", "No space left on device"]);
        said(
            &reply,
            "notice",
            &["may not be whole", "make room in ~/.topup/overflow"],
        );
        // Programs that are started say so themselves at best.
        disk.client.eval("let twice = 2");
        let reply = disk
            .client
            .eval("ignore (Sys.command \"head -c 7000000 /dev/zero\"); 3");
        assert_eq!(reply["value_repr"], "3", "{reply}");
        said(&reply, "notice", &["may not be whole"]);
        let overflow = disk.path("overflow");
        for entry in fs::read_dir(overflow).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let reply = disk.client.eval("print_string \"well\"; before + twice");
        assert_eq!(
            (&reply["stdout"], &reply["value_repr"]),
            (&json!("well"), &json!("3"))
        );
        assert!(reply.get("notice").is_none(), "{reply}");
    });
}

/// `~/.topup` cannot be written to, until `mend` has its way.
fn without_a_folder(
    client: &mut Client,
    reason: &str,
    logs: &Path,
    mend: impl FnOnce(&mut Client),
) {
    let reply = client.eval("let a = 1");
    assert_eq!(reply["value_repr"], "1");
    said(
        &reply,
        "notice",
        &["not in the phrase log yet: a file in ~/.topup/logs", reason],
    );
    let reply = client.eval("print_string (String.make 20_000 'x'); a + 1");
    assert_eq!(reply["value_repr"], "2");
    said(&reply, "stdout", &["not kept in ~/.topup/overflow", reason]);
    let (reply, is_error) = client.call("checkpoint", json!({ "label": "c" }));
    assert!(is_error, "{reply}");
    said(
        &reply,
        "error",
        &["writing the checkpoint", ".topup/checkpoints/c.ml", reason],
    );
    // What no file holds outlives a crash of the process nevertheless.
    client.eval("String.length (Obj.magic 3 : string ref).contents");
    let reply = client.eval("a + 2");
    assert_eq!(reply["value_repr"], "3", "{reply}");
    said(&reply, "notice", &["restored", "not in the phrase log yet"]);
    mend(client);
    let reply = client.eval("a + 3");
    assert!(reply.get("notice").is_none(), "{reply}");
    let log = only_file(logs);
    assert!(
        log.contains("let a = 1;;\nprint_string") && log.ends_with("a + 3;;\n"),
        "{log}"
    );
    let (_, is_error) = client.call("checkpoint", json!({ "label": "c" }));
    assert!(!is_error);
    client.call("reset", json!({}));
    let (reply, _) = client.call("restore", json!({ "label": "c" }));
    assert_eq!(reply["value_repr"], "4", "{reply}");
}

#[test]
fn a_file_in_the_place_of_our_folder_costs_only_the_files() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let topup = home.path().join(".topup");
        fs::write(&topup, "").unwrap();
        let mut client = Client::start_with(executable, |command| {
            command.env("HOME", home.path());
        });
        without_a_folder(&mut client, "Not a directory", &topup.join("logs"), |_| {
            fs::remove_file(&topup).unwrap();
        });
    });
}

#[test]
fn a_folder_that_is_read_only_costs_only_the_files() {
    each(|executable| {
        let Some(mut disk) = SmallDisk::start(executable, "ro") else {
            return;
        };
        let logs = disk.path("logs");
        let topup = disk.home.path().join(".topup");
        without_a_folder(&mut disk.client, "Read-only file system", &logs, |client| {
            let mount = format!("mount -o remount,rw {}", topup.display());
            let reply = client.eval(&format!("Sys.command {mount:?}"));
            assert_eq!(reply["value_repr"], "0", "{reply}");
        });
    });
}

#[test]
fn what_others_remove_is_made_again() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let topup = home.path().join(".topup");
        let mut client = Client::start_with(executable, |command| {
            command.env("HOME", home.path());
        });
        client.eval("let a = 1");
        client.call("checkpoint", json!({ "label": "old" }));
        for gone in ["logs", "overflow", "checkpoints", ""] {
            fs::remove_dir_all(topup.join(gone)).unwrap();
            let reply = client.eval("print_string (String.make 20_000 'x'); a");
            assert_eq!(reply["value_repr"], "1", "{gone}");
            let spilled = reply["stdout_overflow"].as_str().expect("it is kept");
            assert_eq!(fs::metadata(spilled).unwrap().len(), 20_000, "{gone}");
            match gone {
                "logs" | "" => said(
                    &reply,
                    "notice",
                    &["removed by another program", "holds every phrase"],
                ),
                _ => assert!(reply.get("notice").is_none(), "{gone}: {reply}"),
            }
            let log = only_file(&topup.join("logs"));
            assert!(
                log.starts_with("let a = 1;;\n") && log.ends_with("'x'); a;;\n"),
                "{gone}: {log}"
            );
        }
        let (reply, is_error) = client.call("restore", json!({ "label": "old" }));
        assert!(is_error, "{reply}");
        said(&reply, "error", &["no checkpoint \"old\""]);
        assert_eq!(
            client.call("checkpoint", json!({ "label": "new" })).0["phrases"],
            5
        );
        let (reply, _) = client.call("restore", json!({ "label": "new" }));
        assert_eq!(reply["value_repr"], "1", "{reply}");
    });
}

#[test]
fn a_log_that_another_program_replaces_is_put_aside() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log.ml");
    let mut client = Client::start_with(BYTECODE, |command| {
        command.env("HOME", home.path()).env("TOPUP_LOG", &log);
    });
    client.eval("let a = 1");
    // As editors save.
    fs::write(home.path().join("new"), "theirs").unwrap();
    fs::rename(home.path().join("new"), &log).unwrap();
    said(
        &client.eval("let b = 2"),
        "notice",
        &["changed or removed by another program"],
    );
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "let a = 1;;\nlet b = 2;;\n"
    );
    assert_eq!(
        fs::read_to_string(home.path().join("log.ml.1")).unwrap(),
        "theirs"
    );
    fs::write(&log, "").unwrap();
    said(
        &client.eval("let c = 3"),
        "notice",
        &["another program has cut it short"],
    );
    client.eval("String.length (Obj.magic 3 : string ref).contents");
    said(
        &client.eval("1"),
        "notice",
        &["another program has cut it short", "its 0 phrases"],
    );
}

#[test]
fn a_log_of_others_is_theirs_after_a_crash_too() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log.ml");
    let start = || {
        Client::start_with(BYTECODE, |command| {
            command.env("HOME", home.path()).env("TOPUP_LOG", &log);
        })
    };
    let mut first = start();
    first.eval("let first = 1");
    let mut second = start();
    said(
        &second.eval("let second = 2"),
        "notice",
        &["another topup writes its log there"],
    );
    second.eval("String.length (Obj.magic 3 : string ref).contents");
    said(
        &second.eval("let third = 3"),
        "notice",
        &["state is lost", "another topup"],
    );
    // Nor is it taken from another one that found the place empty.
    fs::remove_file(&log).unwrap();
    let mut other = start();
    other.eval("let other = 1");
    said(
        &first.eval("let fourth = 4"),
        "notice",
        &[
            "not in the phrase log yet",
            "another topup writes its log there",
        ],
    );
    other.eval("let more = 2");
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "let other = 1;;\nlet more = 2;;\n"
    );
    drop(other);
    said(&first.eval("1"), "notice", &["written anew"]);
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "let first = 1;;\nlet fourth = 4;;\n1;;\n"
    );
    assert_eq!(
        fs::read_dir(home.path())
            .unwrap()
            .filter(|e| {
                e.as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with("log.ml")
            })
            .count(),
        2,
        "what the other one wrote is put aside"
    );
}

#[test]
fn files_that_may_not_grow_long_hold_a_long_session() {
    // 200 blocks of 512 bytes; all output together is longer.
    let home = tempfile::tempdir().unwrap();
    let script = format!("ulimit -f 200; exec {}", BYTECODE.path);
    let shell = Executable {
        path: "/bin/sh",
        ..BYTECODE
    };
    let mut client = Client::start_with(shell, |command| {
        command
            .args(["-c", &script])
            .env("HOME", home.path())
            .env("TOPUP_INLINE_MAX", "50000");
    });
    for index in 0..20 {
        let reply = client.eval(&format!("print_string (String.make 30_000 'a'); {index}"));
        assert_eq!(
            reply["stdout"].as_str().map(str::len),
            Some(30_000),
            "{index}: {reply}"
        );
        let reply = client.eval("ignore (Sys.command \"yes b | head -c 9000\")");
        assert_eq!(
            reply["stdout"].as_str().map(str::len),
            Some(9000),
            "{index}: {reply}"
        );
    }
}

#[test]
fn a_project_that_is_removed_while_it_is_built_is_said_to_be_gone() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("app");
    // A dune that finds that somebody removes its project.
    let tools = home.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let dune = tools.join("dune");
    fs::write(
        &dune,
        format!("#!/bin/sh\nrm -r {}\nexit $STATUS\n", out.display()),
    )
    .unwrap();
    fs::set_permissions(&dune, fs::Permissions::from_mode(0o755)).unwrap();
    for status in ["0", "1"] {
        let mut client = Client::start_with(BYTECODE, |command| {
            let path = std::env::var("PATH").unwrap();
            command
                .env("HOME", home.path())
                .env("PATH", format!("{}:{path}", tools.display()))
                .env("STATUS", status);
        });
        client.eval("let main () = ()");
        let (reply, is_error) =
            client.call("compile_to_binary", json!({ "entry": "main", "out": out }));
        assert!(is_error && reply["phase"] == "build", "{reply}");
        said(
            &reply,
            "error",
            &["was removed", "call compile_to_binary again", "app"],
        );
        assert_eq!(client.eval("main ()")["value_repr"], "()");
    }
}

#[test]
fn a_stderr_that_takes_nothing_is_nobodys_concern() {
    each(|executable| {
        let mut client = Client::start_with(executable, |command| {
            command
                .stderr(File::options().write(true).open("/dev/full").unwrap())
                .env("TOPUP_LOG_LEVEL", "trace");
        });
        assert_eq!(client.eval("prerr_string \"e\"; 1")["stderr"], "e");
        let (rest, status) = client.finish();
        assert!(rest.is_empty() && status.success());
    });
}

#[test]
fn native_phrases_that_cannot_be_assembled_say_where_and_what_to_do() {
    for executable in crate::support::executables() {
        if executable == BYTECODE {
            continue;
        }
        let mut client = Client::start_with(executable, |command| {
            command.env("TMPDIR", "/nonexistent");
        });
        said(
            &client.eval("let x = 1"),
            "error",
            &["/nonexistent", "No such file", "TMPDIR", "make room"],
        );
    }
}
