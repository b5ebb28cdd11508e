//! Processes that stand still, and clocks that jump.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::support::{BYTECODE, Client, assert_timed_out, each, payload};

/// Stops the process for so long.
fn suspend(client: &Client, time: Duration) {
    client.signal("STOP");
    let state = format!("/proc/{}/stat", client.child.id());
    while !fs::read_to_string(&state).unwrap().contains(") T ") {
        std::thread::yield_now();
    }
    // It is what is tested that time passes.
    std::thread::sleep(time);
    client.signal("CONT");
}

#[test]
fn a_timeout_that_passes_while_the_process_stands_still_interrupts() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let kept = 1;; #require \"unix\"");
        for what in [
            "while true do () done",
            "Unix.sleep 600",
            "Sys.command \"sleep 600\"",
        ] {
            let call = json!({ "source": what, "timeout": 0.5 });
            let id = client.begin_call("eval", call);
            suspend(&client, Duration::from_millis(1500));
            let reply = client.receive();
            assert_eq!(reply["id"], id);
            assert_timed_out(&payload(&reply).0);
        }
        let reply = client.eval("kept");
        assert_eq!(reply["value_repr"], "1", "{reply}");
        assert!(
            reply.get("notice").is_none(),
            "it is the same process image: {reply}"
        );
    });
}

#[test]
fn an_evaluation_outlives_any_time_that_the_process_stands_still() {
    each(|executable| {
        let folder = tempfile::tempdir().unwrap();
        let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
        let mut client = Client::start(executable);
        let wait = format!(
            "close_out (open_out {begun:?}); print_string \"a\"; \
             while not (Sys.file_exists {go:?}) do () done; print_string \"b\"; 42"
        );
        let id = client.begin_call("eval", json!({ "source": wait, "timeout": 50 }));
        while !begun.exists() {
            std::thread::yield_now();
        }
        suspend(&client, Duration::from_millis(300));
        // What is sent while it stands still is answered, too.
        client.signal("STOP");
        client.request("ping", json!({}));
        fs::write(&go, "").unwrap();
        client.signal("CONT");
        let mut replies = [client.receive(), client.receive()];
        replies.sort_by_key(|reply| reply["id"].as_u64());
        assert_eq!(replies[0]["id"], id);
        let (reply, _) = payload(&replies[0]);
        assert_eq!(
            (&reply["value_repr"], &reply["stdout"]),
            (&json!("42"), &json!("ab"))
        );
    });
}

#[test]
fn time_that_the_process_stands_still_is_no_patience_with_an_interrupt() {
    each(|executable| {
        let folder = tempfile::tempdir().unwrap();
        let caught = folder.path().join("caught");
        let mut client = Client::start(executable);
        client.eval("let kept = ref 0;; kept := 1");
        // It takes its time to end when it is told to.
        let source = format!(
            "let rec hold t = try while Sys.time () -. t < 0.5 do () done with Sys.Break -> hold t in \
             try while true do () done with Sys.Break -> close_out (open_out {caught:?}); \
             hold (Sys.time ()); kept := 2"
        );
        client.begin_call("eval", json!({ "source": source, "timeout": 0.1 }));
        while !caught.exists() {
            std::thread::yield_now();
        }
        // Longer than what would bring something stronger.
        suspend(&client, Duration::from_millis(2500));
        // The next interrupt may have met it where it catches none.
        let (reply, _) = payload(&client.receive());
        assert!(reply.get("phase").is_none(), "{reply}");
        let reply = client.eval("!kept");
        assert!(
            ["1", "2"].iter().any(|n| reply["value_repr"] == *n),
            "{reply}"
        );
        assert!(
            reply.get("notice").is_none(),
            "nothing ended the process: {reply}"
        );
    });
}

/// A library that makes the clock on the wall jump to and fro by a year, from one look at it
/// to the next.
const JUMPING: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long jump(void) { static int n; return (n++ & 1) ? 31536000 : -31536000; }
int clock_gettime(clockid_t clock, struct timespec *t) {
  int result = syscall(SYS_clock_gettime, clock, t);
  if (clock == CLOCK_REALTIME) t->tv_sec += jump();
  return result;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
"#;

#[test]
fn a_clock_that_jumps_moves_no_deadline() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jump.c"), JUMPING).unwrap();
    let library = folder.path().join("jump.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg("jump.c")
        .current_dir(folder.path())
        .status();
    assert!(compiled.expect("the linker of Rust and OCaml").success());
    let mut client = Client::start_with(BYTECODE, |command| {
        command.env("LD_PRELOAD", &library);
    });
    client.eval("#require \"unix\"");
    let jumps = "abs_float (Unix.gettimeofday () -. Unix.gettimeofday ()) > 1e7";
    assert_eq!(client.eval(jumps)["value_repr"], "true");
    let work = "let rec f n = if n < 2 then n else f (n - 1) + f (n - 2) in f 24";
    for _ in 0..20 {
        let reply = client.eval_within(work, 30.0);
        assert_eq!(reply["value_repr"], "46368", "{reply}");
        assert!(
            (0.0..30_000.0).contains(&reply["elapsed_ms"].as_f64().unwrap()),
            "{reply}"
        );
    }
    let begun = Instant::now();
    assert_timed_out(&client.eval_within("while true do () done", 0.3));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    // A crash is one crash within a minute, whatever the clock says.
    client.eval("let kept = 1");
    client.eval("String.length (Obj.magic 3 : string ref).contents");
    assert_eq!(client.eval("kept")["value_repr"], "1");
}

#[test]
fn files_from_times_to_come_are_the_oldest() {
    let home = tempfile::tempdir().unwrap();
    let overflow = home.path().join(".topup/overflow");
    fs::create_dir_all(&overflow).unwrap();
    let tomorrow = SystemTime::now() + Duration::from_secs(100_000);
    for index in 0..100 {
        let file = fs::File::create(overflow.join(format!("from-tomorrow-{index}"))).unwrap();
        file.set_modified(tomorrow).unwrap();
    }
    let mut client = Client::start_with(BYTECODE, |command| {
        command.env("HOME", home.path());
    });
    let mut spill = || {
        let reply = client.eval("print_string (String.make 20_000 'x')");
        reply["stdout_overflow"].as_str().unwrap().to_string()
    };
    let spilled = [spill(), spill(), spill()];
    assert!(spilled.iter().all(|path| Path::new(path).exists()));
    assert_eq!(fs::read_dir(&overflow).unwrap().count(), 100);
}

#[test]
fn the_clock_on_the_wall_is_looked_at_for_the_age_of_files_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let looks = ["SystemTime", "Realtime", "CLOCK_REALTIME", "gettimeofday"];
            if looks.iter().any(|look| text.contains(look)) {
                found.push(path.strip_prefix(&source).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    assert_eq!(found, ["home.rs", "session/ssh/near_end.rs"]);
}
