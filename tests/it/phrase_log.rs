//! The phrase log and what is made of it: checkpoints, and sessions that are restored.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{BYTECODE, Client, Executable, each, executables, toolchain};

/// A home of its own for a server.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn start(&self, executable: Executable) -> Client {
        self.start_with(executable, |_| {})
    }

    fn start_with(&self, executable: Executable, configure: impl FnOnce(&mut Command)) -> Client {
        Client::start_with(executable, |command| {
            command.env("HOME", self.0.path());
            configure(command);
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The private logs, the oldest first.
    fn logs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path(".topup/logs")).into_iter().flatten();
        let mut files: Vec<_> = entries
            .map(|e| e.expect("an entry"))
            .map(|e| {
                (
                    e.metadata().expect("metadata").modified().expect("a time"),
                    e.path(),
                )
            })
            .collect();
        files.sort();
        let read = |(_, path): &(_, PathBuf)| fs::read_to_string(path).expect("text");
        files.iter().map(read).collect()
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn checkpoint(client: &mut Client, label: &str) -> Value {
    let (reply, is_error) = client.call("checkpoint", json!({ "label": label }));
    assert!(!is_error, "{reply}");
    reply
}

fn restore(client: &mut Client, label: &str) -> Value {
    client.call("restore", json!({ "label": label })).0
}

#[test]
fn the_log_holds_what_succeeded_as_it_was_written() {
    each(|executable| {
        let home = Home::new();
        fs::write(
            home.path("used.ml"),
            "#!/usr/bin/ocaml\n(* why *) let u = 1\nlet v = u;;\nlet w = oops",
        )
        .unwrap();
        let mut client = home.start(executable);
        assert!(home.logs().is_empty(), "no file before the first phrase");
        let used = format!("#use \"{}\"", home.path("used.ml").display());
        for source in [
            "let x = 1 (* one *);; let f\n  y = x + y",
            "oops;; let never = 1",
            "let half = 1;; failwith \"no\";; let never = 2",
            "#warnings \"+9\";; #show list;; #print_depth 50",
            "#load \"nothing\"",
            &used,
            "",
            "(* nothing *)",
            "let é = \"é\"",
        ] {
            client.eval(source);
        }
        let log = "let x = 1 (* one *);;\nlet f\n  y = x + y;;\nlet half = 1;;\n#warnings \"+9\";;\n\
                   #print_depth 50;;\n(* why *) let u = 1;;\nlet v = u;;\n";
        let got = home.logs();
        assert_eq!(got.len(), 1);
        assert_eq!(
            got[0].strip_suffix("let é = \"é\";;\n").unwrap_or(&got[0]),
            log
        );
    });
}

#[test]
fn where_the_log_is() {
    for executable in executables() {
        let home = Home::new();
        let with = |value: &str, source: &str| {
            let mut client = home.start_with(executable, |command| {
                command.env("TOPUP_LOG", value);
            });
            let reply = client.eval(source);
            assert!(reply["error"].is_null(), "{reply}");
            let (reply, is_error) = client.call("checkpoint", json!({ "label": "c" }));
            (
                is_error,
                reply["error"].as_str().unwrap_or_default().to_string(),
                reply["phase"].clone(),
                client,
            )
        };
        let named = home.path("named.ml");
        let (failed, ..) = with(named.to_str().unwrap(), "let a = 1");
        assert!(!failed);
        assert_eq!(text(&named), "let a = 1;;\n");
        assert_eq!(fs::metadata(&named).unwrap().mode() & 0o777, 0o600);

        // One that is there is moved aside; `~/` is resolved.
        let (failed, _, _, _client) = with("~/named.ml", "let b = 2");
        assert!(!failed);
        assert_eq!(text(&named), "let b = 2;;\n");
        assert_eq!(text(&home.path("named.ml.1")), "let a = 1;;\n");

        // Another process writes there.
        let (failed, error, phase, _) = with(named.to_str().unwrap(), "let c = 3");
        assert!(
            failed && error.contains("another topup") && phase == "log",
            "{error}"
        );
        assert_eq!(text(&named), "let b = 2;;\n");

        let (failed, error, phase, _) = with("off", "let d = 4");
        assert!(
            failed && error.contains("TOPUP_LOG=off") && phase == "log",
            "{error}"
        );
        for unusable in ["/proc/nowhere/log.ml", "/dev/null", "/"] {
            let (failed, error, phase, _) = with(unusable, "let e = 5");
            assert!(failed && phase == "log", "{error}");
            assert!(
                error.contains(&format!("TOPUP_LOG={unusable} cannot be used")),
                "{error}"
            );
        }
        assert!(home.logs().is_empty());
    }
}

#[test]
fn a_full_disk_loses_no_phrase() {
    // /dev/full is no regular file; a limit on the size of files stops writes as well.
    let home = Home::new();
    let log = home.path("log.ml");
    let script = format!("ulimit -f 1; exec {}", BYTECODE.path);
    let mut client = Client::start_with(
        Executable {
            variant: "bytecode",
            path: "/bin/sh",
        },
        |command| {
            command
                .args(["-c", &script])
                .env("HOME", home.0.path())
                .env("TOPUP_LOG", &log);
        },
    );
    let padding = "x".repeat(300);
    for index in 0..5 {
        let reply = client.eval(&format!("let a{index} = \"{padding}\""));
        assert!(reply["error"].is_null(), "{reply}");
    }
    let written = text(&log);
    assert!(
        written.len() < 1000 && written.ends_with("\";;\n"),
        "{written}"
    );
    let (reply, _) = client.call("checkpoint", json!({ "label": "c" }));
    assert!(
        reply["error"]
            .as_str()
            .is_some_and(|e| e.contains("writing the checkpoint")),
        "{reply}"
    );
    assert_eq!(
        fs::read_dir(home.path(".topup/checkpoints"))
            .unwrap()
            .count(),
        0,
        "nothing half-written"
    );
}

#[test]
fn a_killed_process_loses_nothing_that_succeeded() {
    each(|executable| {
        let home = Home::new();
        let mut client = home.start(executable);
        let count = if executable.variant == "native" {
            40
        } else {
            400
        };
        for index in 0..count {
            client.begin_call(
                "eval",
                json!({ "source": format!("let a{index} = {index}") }),
            );
        }
        let mut replies = 0;
        while replies < count / 2 {
            client.receive();
            replies += 1;
        }
        client.signal("KILL");
        while client.try_receive().is_some() {
            replies += 1;
        }
        let log = home.logs().pop().expect("a log");
        let records: Vec<_> = log.lines().collect();
        assert!(
            records.len() >= replies && log.ends_with('\n'),
            "{} of {replies}",
            records.len()
        );
        for (index, record) in records.iter().enumerate() {
            assert_eq!(*record, format!("let a{index} = {index};;"));
        }
    });
}

#[test]
fn a_checkpoint_brings_the_session_back() {
    each(|executable| {
        let home = Home::new();
        let mut client = home.start(executable);
        client.eval("type shape = Square of int | Circle;; let area = function Square n -> n * n | Circle -> 3");
        client.eval("let r = ref 1;; r := 5;; let partial = function 1 -> 2");
        client.eval("failwith \"not in the log\"");
        client.eval("area (Square !r)");
        let reply = checkpoint(&mut client, "good-1.0");
        assert_eq!(reply["phrases"], 6);
        let path = home.path(".topup/checkpoints/good-1.0.ml");
        assert_eq!(reply["path"], path.to_str().unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

        client.eval("let area _ = \"wrecked\";; type shape = int");
        let reply = restore(&mut client, "good-1.0");
        assert_eq!(reply["value_repr"], "25", "{reply}");
        assert!(
            reply["notice"].as_str().unwrap().contains("6 phrases"),
            "{reply}"
        );
        // What its phrases printed and were warned of is known.
        assert!(reply.get("earlier").is_none(), "{reply}");
        assert_eq!(reply["warnings"], json!([]));
        assert_eq!(client.eval("area (Square 3)")["value_repr"], "9");
        let (env, _) = client.call("env", json!({}));
        assert_eq!(env["total"], 3);

        // The log is the checkpoint's, and goes on from there.
        client.eval("let later = 1");
        assert_eq!(checkpoint(&mut client, "later")["phrases"], 8);
        assert!(text(&home.path(".topup/checkpoints/later.ml")).starts_with(&text(&path)));

        // Another process, and the other executable.
        for other in executables() {
            let reply = restore(&mut home.start(other), "good-1.0");
            assert_eq!(reply["value_repr"], "25", "{reply}");
        }
    });
}

#[test]
fn a_checkpoint_is_plain_ocaml() {
    let home = Home::new();
    let mut client = home.start(BYTECODE);
    client
        .eval("let x = 1 let y = 2 (* ; *);; #print_depth 9;; module M = struct let z = x + y end");
    client.eval("Printf.printf \"%d\\n\" M.z");
    checkpoint(&mut client, "plain");
    let ocaml = Path::new(&toolchain("bin")).join("ocaml");
    let script = home.path("script.ml");
    fs::write(
        &script,
        format!(
            "#use \"{}\"",
            home.path(".topup/checkpoints/plain.ml").display()
        ),
    )
    .unwrap();
    let output = Command::new(ocaml)
        .arg("-noinit")
        .arg(script)
        .output()
        .expect("ocaml runs");
    assert!(output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("3\n"),
        "{output:?}"
    );
}

#[test]
fn a_replay_that_fails_says_where() {
    each(|executable| {
        let home = Home::new();
        let log = home.path("log.ml");
        let mut client = home.start_with(executable, |command| {
            command.env("TOPUP_LOG", &log).env("FLAG", "1");
        });
        client.eval("let a = 1");
        client.eval("let b = int_of_string (Sys.getenv \"FLAG\")");
        client.eval("let c = 3");
        checkpoint(&mut client, "flag");
        drop(client);

        let mut client = home.start_with(executable, |command| {
            command.env("TOPUP_LOG", &log).env_remove("FLAG");
        });
        client.eval("let before = 0");
        let (reply, is_error) = client.call("restore", json!({ "label": "flag" }));
        assert!(
            is_error && reply["error"].as_str().unwrap().contains("Not_found"),
            "{reply}"
        );
        let notice = reply["notice"].as_str().unwrap();
        assert!(
            notice.contains("phrase 2 of") && notice.contains("flag.ml"),
            "{reply}"
        );
        assert_eq!(text(&log), "let a = 1;;\n");
        let (env, _) = client.call("env", json!({}));
        assert_eq!(env["bindings"], json!([{ "name": "a", "type": "int" }]));
        client.eval("let d = a");
        assert_eq!(text(&log), "let a = 1;;\nlet d = a;;\n");
    });
}

#[test]
fn what_is_restored_ends_before_what_follows() {
    let home = Home::new();
    let mut client = home.start(BYTECODE);
    client.eval("let x = 1");
    let path = PathBuf::from(checkpoint(&mut client, "edited")["path"].as_str().unwrap());
    for unended in [
        "let x = 1;;\nlet y = 2",
        "let x = 1 let y = 2 (* c *)\n",
        "let x = 1 let y = 2\n# 3 \"f\"",
    ] {
        fs::write(&path, unended).unwrap();
        assert!(restore(&mut client, "edited")["error"].is_null());
        client.eval("1 + 1");
        client.eval("let z = y");
        checkpoint(&mut client, "after");
        let reply = restore(&mut client, "after");
        assert_eq!(reply["value_repr"], "2", "{unended:?}: {reply}");
    }
}

#[test]
fn others_do_not_change_the_log() {
    let home = Home::new();
    let log = home.path("log.ml");
    let mut client = home.start_with(BYTECODE, |command| {
        command.env("TOPUP_LOG", &log);
    });
    client.eval("let x = 1");
    fs::write(&log, text(&log) + "let foreign = 1;;\n").unwrap();
    client.eval("let y = 2");
    checkpoint(&mut client, "c");
    assert_eq!(
        text(&home.path(".topup/checkpoints/c.ml")),
        "let x = 1;;\nlet y = 2;;\n"
    );

    fs::write(&log, "").unwrap();
    let (reply, is_error) = client.call("checkpoint", json!({ "label": "d" }));
    assert!(is_error && reply["phase"] == "log", "{reply}");
    assert!(
        reply["error"]
            .as_str()
            .unwrap()
            .contains("another program has cut it short"),
        "{reply}"
    );
    assert_eq!(restore(&mut client, "c")["value_repr"], "2");
    assert_eq!(text(&log), "let x = 1;;\nlet y = 2;;\n");
}

#[test]
fn a_replay_can_be_cancelled() {
    let home = Home::new();
    let mut client = home.start(BYTECODE);
    client.eval("let a = 1");
    client.eval("if Sys.file_exists \"/\" then ignore a");
    let path = PathBuf::from(checkpoint(&mut client, "loops")["path"].as_str().unwrap());
    fs::write(
        &path,
        text(&path) + "let () = prerr_string \"on\"; while true do () done;;\n",
    )
    .unwrap();
    let id = client.begin_call("restore", json!({ "label": "loops" }));
    let cancel = client.begin_call("cancel", json!({}));
    let mut replies = [client.receive(), client.receive()];
    replies.sort_by_key(|reply| reply["id"].as_u64());
    assert_eq!(
        (&replies[0]["id"], &replies[1]["id"]),
        (&json!(id), &json!(cancel))
    );
    let (reply, is_error) = crate::support::payload(&replies[0]);
    assert!(is_error, "{reply}");
    crate::support::assert_timed_out(&reply);
}

#[test]
fn labels_stay_in_their_folder() {
    let home = Home::new();
    let mut client = home.start(BYTECODE);
    client.eval("let a = 1");
    let long = "l".repeat(201);
    for label in [
        "", ".", "..", ".hidden", "a..b", "../a", "a/b", "/etc/x", "a b", "a\n", "é", "a\0", &long,
    ] {
        for tool in ["checkpoint", "restore"] {
            let (reply, is_error) = client.call(tool, json!({ "label": label }));
            assert!(
                is_error && reply["phase"] == "arguments",
                "{label:?}: {reply}"
            );
            assert!(
                reply["error"].as_str().unwrap().contains("label"),
                "{reply}"
            );
        }
    }
    for label in ["a", "A-1_b.c", "0", "-", "_"] {
        checkpoint(&mut client, label);
    }
    // A link out of the folder is neither followed nor written through.
    let outside = home.path("outside.ml");
    fs::write(&outside, "let outside = 1;;").unwrap();
    let link = home.path(".topup/checkpoints/link.ml");
    symlink(&outside, &link).unwrap();
    let reply = restore(&mut client, "link");
    assert!(
        reply["error"].as_str().unwrap().contains("symbolic link"),
        "{reply}"
    );
    checkpoint(&mut client, "link");
    assert_eq!(text(&outside), "let outside = 1;;");
    assert_eq!(text(&link), "let a = 1;;\n");
    // A folder in the place of the file; one that cannot be written.
    fs::create_dir(home.path(".topup/checkpoints/dir.ml")).unwrap();
    for tool in ["checkpoint", "restore"] {
        let (reply, is_error) = client.call(tool, json!({ "label": "dir" }));
        assert!(is_error, "{reply}");
    }
    let reply = restore(&mut client, "none");
    assert!(
        reply["error"]
            .as_str()
            .unwrap()
            .contains("there are: -, 0, A-1_b.c"),
        "{reply}"
    );
}

#[test]
fn a_checkpoint_is_whole_whenever_the_process_dies() {
    let home = Home::new();
    let path = home.path(".topup/checkpoints/c.ml");
    let phrase = format!("let s = \"{}\"", "x".repeat(200_000));
    for round in 0..12 {
        let mut client = home.start(BYTECODE);
        for _ in 0..=round % 3 {
            client.eval(&phrase);
        }
        client.begin_call("checkpoint", json!({ "label": "c" }));
        // The moment moves from round to round; whichever it is, the file must be whole.
        for _ in 0..round {
            std::thread::yield_now();
        }
        client.signal("KILL");
        client.wait();
        if let Ok(text) = fs::read_to_string(&path) {
            let whole = format!("{phrase};;\n");
            assert_eq!(text.len() % whole.len(), 0);
            assert_eq!(text, whole.repeat(text.len() / whole.len()));
        }
    }
}

#[test]
fn where_checkpoints_are() {
    let home = Home::new();
    let elsewhere = home.path("else where");
    let mut client = home.start_with(BYTECODE, |command| {
        command
            .current_dir(home.0.path())
            .env("TOPUP_CHECKPOINT_DIR", "else where");
    });
    client.eval("Sys.chdir \"/\"");
    checkpoint(&mut client, "c");
    assert!(elsewhere.join("c.ml").exists());
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o500)).unwrap();
}
