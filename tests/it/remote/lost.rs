//! Whose state is restored, and who is told.

use std::fs;

use serde_json::json;

use super::sshd::kill;
use super::{Near, pair};
use crate::sessions::eventually;
use crate::support::each;

#[test]
fn a_log_is_not_run_on_top_of_what_somebody_else_does() {
    each(|executable| {
        let (user, machine, mut near) = pair(executable);
        near.connect("far");
        near.value_on("far", "let x = 1");
        kill("KILL", machine.topups()[0]);
        near.notices();
        let mut other = Near::start(executable, &user);
        other.connect("far");
        other.value_on("far", "let x = 2");
        other.done("stop_session", json!({ "host": "far" }));
        let reply = near.eval_on("far", "x");
        assert_eq!(reply["value_repr"], "2", "{reply}");
        let notice = reply["notice"].as_str().unwrap();
        assert!(
            notice.contains("its state is lost") && notice.contains("somebody has used"),
            "{notice}"
        );
        // What it says to do works.
        let from = notice.find("#use").unwrap();
        let directive = notice[from..].split(" runs it").next().unwrap();
        near.eval_on("far", directive);
        assert_eq!(near.value_on("far", "x"), "1");
    });
}

#[test]
fn a_session_that_was_left_and_has_ended_is_told() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        let stop = json!({ "host": "far" });
        near.connect("far");
        near.value_on("far", "let x = 41");
        near.done("stop_session", stop.clone());
        kill("KILL", machine.topups()[0]);
        // Also over a crash of the server here.
        near.client
            .eval("String.length (Obj.magic 3 : string ref).contents");
        let reply = near.connect("far");
        let notice = reply["notice"].as_str().unwrap();
        assert!(notice.contains("its state is lost"), "{notice}");
        assert_eq!(near.value_on("far", "x"), "41");
        // Ended on purpose, also after it was left.
        near.done("stop_session", stop);
        let ended = near.done("stop_session", json!({ "host": "far", "end": true }));
        assert_eq!(ended["stopped"], true);
        eventually("it ends", || machine.topups().is_empty());
        let reply = near.connect("far");
        assert!(reply.get("notice").is_none(), "{reply}");
        assert!(near.eval_on("far", "x")["error"].is_string());
    });
}

#[test]
fn what_ends_a_topup_runs_no_log() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        let runs = machine.home.path().join("runs");
        near.value_on("far", &format!("close_out (open_out {:?})", runs));
        kill("KILL", machine.topups()[0]);
        near.notices();
        fs::remove_file(&runs).unwrap();
        near.done("stop_session", json!({ "host": "far", "end": true }));
        eventually("nothing is left there", || machine.topups().is_empty());
        assert!(!runs.exists());
    });
}

#[test]
fn a_copy_of_a_file_tells_what_became_of_the_session() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        near.connect("far");
        near.value_on("far", "let x = 1");
        let file = near.home.path().join("file");
        fs::write(&file, "text").unwrap();
        let push = json!({ "host": "far", "local_path": file });
        let pull = json!({ "host": "far", "remote_path": "~/.topup/xfer/file" });
        for (tool, arguments) in [("push_file", push), ("pull_file", pull)] {
            kill("KILL", machine.topups()[0]);
            near.notices();
            let reply = near.done(tool, arguments);
            let notice = reply["notice"].as_str().unwrap();
            assert!(notice.contains("phrases again"), "{notice}");
            let reply = near.eval_on("far", "x");
            assert!(reply.get("notice").is_none(), "it is said once: {reply}");
        }
    });
}
