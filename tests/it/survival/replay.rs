//! How a session comes back.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::cases::{CRASH, THREADS, UNIX, assert_crashed};
use super::session::{Session, each};
use crate::sessions::eventually;

#[test]
fn what_user_code_changed_of_the_process_is_as_it_was() {
    each(|mut session| {
        let directory = session.eval("Sys.getcwd ()")["value_repr"].clone();
        session.prepare(UNIX);
        session.prepare("Unix.putenv \"HOME\" \"/nowhere\";; Unix.putenv \"TOPUP_LOG\" \"off\"");
        session.eval("let () = Sys.chdir \"/\";; failwith \"so that it is not in the log\"");
        assert_crashed(&session.eval("Unix._exit 1"), None, "");
        // The log's phrases ran again in the folder where the server began.
        let reply = session.eval("Sys.getcwd ()");
        assert_eq!(reply["value_repr"], "\"/\"", "{reply}");
        let (reply, _) = session
            .client
            .call("checkpoint", json!({ "label": "survival" }));
        assert!(reply["phrases"].is_u64(), "{reply}");
        session.reset();
        assert_eq!(session.eval("Sys.getcwd ()")["value_repr"], directory);
        session.end();
    });
}

#[test]
fn a_phrase_that_crashes_the_replay_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let flag = folder.path().join("flag");
    each(|session| {
        let executable = session.executable;
        session.end();
        let _ = fs::remove_file(&flag);
        let log = folder.path().join(format!("{}.ml", executable.variant));
        let path = log.to_str().expect("text");
        let mut session = Session::with(executable, &[("TOPUP_LOG", path)]);
        session.prepare("let a = 1");
        let crashing = format!(
            "let b = if Sys.file_exists {:?} then String.length (Obj.magic 3 : string ref).contents else 2",
            flag.display()
        );
        assert_eq!(session.eval(&crashing)["value_repr"], "2");
        session.prepare("let c = 3");
        fs::write(&flag, "").unwrap();
        assert_crashed(&session.eval(CRASH), Some("SIGSEGV"), "");
        let reply = session.eval("a + c");
        assert_eq!(reply["value_repr"], "4", "{reply}");
        let notice = reply["notice"].as_str().unwrap();
        assert!(notice.contains("not restored: phrase 2"), "{notice}");
        assert!(session.eval("b")["error"].is_string());
        // The log is what the session is; the old one is kept.
        let now = fs::read_to_string(&log).unwrap();
        assert_eq!(now, "let a = 1;;\nlet c = 3;;\na + c;;\n");
        let old = fs::read_to_string(log.with_extension("ml.1")).unwrap();
        assert!(old.contains("let b = if"), "{old}");
        session.end();
    });
}

#[test]
fn cancel_gives_up_the_phrase_that_the_log_is_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let (go, runs) = (folder.path().join("go"), folder.path().join("runs"));
    each(|mut session| {
        fs::write(&go, "").unwrap();
        session.prepare("let before = 1");
        session.prepare(&format!(
            "let endless = close_out (open_out {runs:?}); while not (Sys.file_exists {go:?}) do () done"
        ));
        session.prepare("let after = 41");
        for file in [&go, &runs] {
            fs::remove_file(file).unwrap();
        }
        assert_crashed(&session.eval(CRASH), Some("SIGSEGV"), "");
        eventually("the log is run again", || runs.exists());
        let (reply, _) = session.client.call("cancel", json!({}));
        assert_eq!(reply["cancelled"], true);
        let reply = session.eval("before + after");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        let notice = reply["notice"].as_str().unwrap();
        assert!(notice.contains("not restored: phrase 2"), "{notice}");
        session.end();
    });
}

#[test]
fn the_third_end_in_a_minute_begins_afresh() {
    each(|mut session| {
        session.prepare("let a = 1");
        for time in 1..=3 {
            assert_crashed(&session.eval(CRASH), Some("SIGSEGV"), "");
            let reply = session.eval("a");
            let notice = reply["notice"].as_str().unwrap();
            match time {
                3 => assert!(
                    reply["error"].is_string() && notice.contains("starts empty"),
                    "{reply}"
                ),
                _ => assert!(
                    reply["value_repr"] == "1" && notice.contains("restored"),
                    "{reply}"
                ),
            }
        }
        assert_eq!(session.eval("1 + 1")["value_repr"], "2");
        session.end();
    });
}

#[test]
fn a_crash_between_evaluations_is_told_with_the_next() {
    each(|mut session| {
        session.prepare("let x = 41");
        session.prepare(THREADS);
        let pid = session.pid();
        session.eval(&format!(
            "let t = Thread.create (fun () -> Thread.delay 0.2; {CRASH}) ();; failwith \"not in the log\""
        ));
        // A new image has other memory files than the old one.
        let file = || fs::read_link(format!("/proc/{pid}/fd/1")).ok();
        let before = file();
        let limit = Instant::now() + Duration::from_secs(30);
        while file() == before {
            assert!(Instant::now() < limit, "nothing has crashed");
            std::thread::sleep(Duration::from_millis(10));
        }
        let reply = session.eval("x + 1");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        let notice = reply["notice"].as_str().unwrap_or_default();
        assert!(notice.contains("SIGSEGV"), "{reply}");
        session.end();
    });
}
