//! `--socket`: the session outlives its clients.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::{SEGFAULT, eventually};
use crate::support::{BYTECODE, Client, Executable, each, payload};

struct Served {
    process: Client,
    path: PathBuf,
    home: tempfile::TempDir,
}

fn serve(executable: Executable, more: &[&str]) -> Served {
    let home = tempfile::tempdir().unwrap();
    // The folder is made, too.
    let path = home.path().join("run/topup.sock");
    let process = Client::start_with(executable, |command| {
        command
            .env("HOME", home.path())
            .arg("--socket")
            .arg(&path)
            .args(more);
        command.stderr(Stdio::null());
    });
    eventually("it listens", || UnixStream::connect(&path).is_ok());
    Served {
        process,
        path,
        home,
    }
}

struct Visitor {
    stream: BufReader<UnixStream>,
    id: u64,
}

impl Visitor {
    fn at(path: &Path) -> Visitor {
        let stream = UnixStream::connect(path).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Visitor {
            stream: BufReader::new(stream),
            id: 0,
        }
    }

    fn begin(&mut self, tool: &str, arguments: Value) {
        self.id += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let line =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params });
        self.stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        let reply: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert_eq!(reply["id"], self.id, "{reply}");
        payload(&reply).0
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.begin(tool, arguments);
        self.receive()
    }

    fn eval(&mut self, source: &str) -> Value {
        self.call("eval", json!({ "source": source }))
    }
}

#[test]
fn state_outlives_connections() {
    each(|executable| {
        let mut served = serve(executable, &[]);
        let metadata = fs::symlink_metadata(&served.path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let mut first = Visitor::at(&served.path);
        assert_eq!(first.eval("let x = 41")["value_repr"], "41");
        drop(first);
        // One that only looks does no harm.
        drop(UnixStream::connect(&served.path).unwrap());
        let mut second = Visitor::at(&served.path);
        assert_eq!(second.eval("x + 1")["value_repr"], "42");
        // The next one waits its turn, and what it asked meanwhile is answered.
        let mut third = Visitor::at(&served.path);
        third.begin("eval", json!({ "source": "y" }));
        assert_eq!(second.eval("let y = 7")["value_repr"], "7");
        drop(second);
        assert_eq!(third.receive()["value_repr"], "7");
        // Half-closed, it still gets its answer, and then the end.
        third.begin("eval", json!({ "source": "x + y" }));
        third
            .stream
            .get_ref()
            .shutdown(std::net::Shutdown::Write)
            .unwrap();
        assert_eq!(third.receive()["value_repr"], "48");
        let mut rest = String::new();
        assert_eq!(third.stream.read_line(&mut rest).unwrap(), 0, "{rest}");
        served.process.signal("TERM");
        assert!(served.process.wait().success());
        assert!(!served.path.exists(), "the socket goes with it");
    });
}

#[test]
fn a_client_that_vanishes_interrupts_nothing() {
    each(|executable| {
        let served = serve(executable, &[]);
        let go = served.home.path().join("go");
        let mut first = Visitor::at(&served.path);
        first.eval("let r = ref 0");
        let source = format!(
            "incr r; while not (Sys.file_exists {:?}) do () done; incr r; print_string \"for nobody\"; !r",
            go.display()
        );
        first.begin("eval", json!({ "source": source }));
        drop(first);
        let mut second = Visitor::at(&served.path);
        second.begin("eval", json!({ "source": "!r" }));
        fs::write(&go, "").unwrap();
        let reply = second.receive();
        assert_eq!(reply["value_repr"], "2", "it ran to its end: {reply}");
        assert_eq!(reply["stdout"], "", "what it printed was its own");
        // The next client can cancel what the last one left.
        second.begin("eval", json!({ "source": "while true do () done" }));
        drop(second);
        let mut third = Visitor::at(&served.path);
        let mut cancelled = json!(false);
        while cancelled != true {
            cancelled = third.call("cancel", json!({}))["cancelled"].clone();
        }
        assert_eq!(third.eval("!r + 1")["value_repr"], "3");
    });
}

#[test]
fn a_crash_keeps_the_connection_and_the_listener() {
    each(|executable| {
        let served = serve(executable, &[]);
        let pid = served.process.child.id();
        let mut visitor = Visitor::at(&served.path);
        visitor.eval("let x = 41");
        let mut waiting = Visitor::at(&served.path);
        waiting.begin("eval", json!({ "source": "x" }));
        let reply = visitor.eval(SEGFAULT);
        assert_eq!(reply["phase"], "crash", "{reply}");
        let reply = visitor.eval("x + 1");
        assert_eq!(reply["value_repr"], "42", "{reply}");
        assert!(
            reply["notice"].as_str().unwrap().contains("restored"),
            "{reply}"
        );
        drop(visitor);
        assert_eq!(waiting.receive()["value_repr"], "41");
        // Also when nobody is there.
        waiting.eval("#require \"unix\"");
        waiting.begin("eval", json!({ "source": "Unix.sleepf 0.1; let g = Unix.getpid () in print_int g; String.length (Obj.magic 3 : string ref).contents" }));
        drop(waiting);
        let mut next = Visitor::at(&served.path);
        let reply = next.eval("x + 2");
        assert_eq!(reply["value_repr"], "43", "{reply}");
        assert_eq!(served.process.child.id(), pid);
        assert_eq!(
            fs::symlink_metadata(&served.path)
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o600
        );
    });
}

#[test]
fn what_is_said_to_a_client_that_has_gone_does_not_end_a_server_that_crashes() {
    each(|executable| {
        let served = serve(executable, &[]);
        for round in 0..25 {
            let mut visitor = Visitor::at(&served.path);
            visitor.begin("eval", json!({ "source": "1" }));
            visitor.begin("eval", json!({ "source": SEGFAULT }));
            drop(visitor);
            let reply = Visitor::at(&served.path).eval("40 + 2");
            assert_eq!(reply["value_repr"], "42", "round {round}: {reply}");
        }
    });
}

#[test]
fn stale_files_are_replaced_and_live_ones_respected() {
    let mut served = serve(BYTECODE, &[]);
    Visitor::at(&served.path).eval("let x = 1");
    // A second one holds on until its stdin ends.
    let mut second = Command::new(BYTECODE.path)
        .arg("--socket")
        .arg(&served.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(second.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(
        said.contains("serves on") && said.contains("already"),
        "{said}"
    );
    assert!(second.try_wait().unwrap().is_none(), "it holds on");
    assert_eq!(Visitor::at(&served.path).eval("x")["value_repr"], "1");
    drop(second.stdin.take());
    assert!(second.wait().unwrap().success());
    // After SIGKILL the file is there, and nobody listens.
    served.process.signal("KILL");
    served.process.wait();
    assert!(served.path.exists());
    let mut third = Client::start_with(BYTECODE, |command| {
        command
            .env("HOME", served.home.path())
            .arg("--socket")
            .arg(&served.path)
            .stderr(Stdio::null());
    });
    eventually("it listens", || UnixStream::connect(&served.path).is_ok());
    assert_eq!(Visitor::at(&served.path).eval("1 + 1")["value_repr"], "2");
    third.signal("TERM");
    third.wait();
    // What is no socket is not touched.
    fs::write(&served.path, "precious").unwrap();
    let output = Command::new(BYTECODE.path)
        .arg("--socket")
        .arg(&served.path)
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no socket"));
    assert_eq!(fs::read_to_string(&served.path).unwrap(), "precious");
}

#[test]
fn a_hangup_and_a_closed_stdin_end_nothing() {
    let mut served = serve(BYTECODE, &[]);
    let mut visitor = Visitor::at(&served.path);
    visitor.eval("let x = 1");
    served.process.finish_input();
    served.process.signal("HUP");
    assert_eq!(visitor.eval("x")["value_repr"], "1");
    served.process.signal("HUP");
    assert_eq!(visitor.eval("x + 1")["value_repr"], "2");
    assert!(served.process.child.try_wait().unwrap().is_none());
}

#[test]
fn an_idle_server_ends_if_it_is_told_to() {
    let mut served = serve(BYTECODE, &["--idle-timeout", "0.3"]);
    let mut visitor = Visitor::at(&served.path);
    visitor.eval("let x = 1");
    // A client that is there, and an evaluation that runs, are no idleness.
    visitor.eval("let t = Sys.time () in while Sys.time () -. t < 0.7 do () done");
    assert_eq!(visitor.eval("x")["value_repr"], "1");
    drop(visitor);
    assert!(served.process.wait().success());
    assert!(!served.path.exists());
    let output = Command::new(BYTECODE.path)
        .args(["--idle-timeout", "1"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("--socket"));
}

#[test]
fn paths_are_resolved() {
    let home = tempfile::tempdir().unwrap();
    for (given, at) in [("~/t/a.sock", "t/a.sock"), ("b.sock", "b.sock")] {
        let mut server = Client::start_with(BYTECODE, |command| {
            command.env("HOME", home.path()).current_dir(home.path());
            command.args(["--socket", given]).stderr(Stdio::null());
        });
        let path = home.path().join(at);
        eventually("it listens", || UnixStream::connect(&path).is_ok());
        assert_eq!(Visitor::at(&path).eval("2")["value_repr"], "2");
        server.signal("TERM");
        server.wait();
    }
}

#[test]
fn what_a_client_sends_before_it_closes_is_run() {
    each(|executable| {
        let served = serve(executable, &[]);
        let mut first = Visitor::at(&served.path);
        first.eval("let seen = ref [] let add n = seen := n :: !seen");
        // More than is read ahead; it has closed before we come to it, and reads nothing.
        let mut hasty = Visitor::at(&served.path);
        for number in 1..=100 {
            hasty.begin(
                "eval",
                json!({ "source": format!("add {number}; String.make 9000 'x'") }),
            );
        }
        drop(hasty);
        // One that is being served closes, too.
        for number in 101..=200 {
            first.begin(
                "eval",
                json!({ "source": format!("add {number}; String.make 9000 'x'") }),
            );
        }
        drop(first);
        let mut last = Visitor::at(&served.path);
        let reply =
            last.eval("List.rev !seen = List.init 100 (fun n -> n + 101) @ List.init 100 succ");
        assert_eq!(reply["value_repr"], "true", "{reply}");
        assert_eq!(last.eval("List.length !seen")["value_repr"], "200");
    });
}

#[test]
fn more_than_a_client_would_read_holds_up_no_one_else() {
    let served = serve(BYTECODE, &["--idle-timeout", "600"]);
    let mut hasty = Visitor::at(&served.path);
    let source = "let n = 1;; let s = String.make 9000 'x' in print_string s; prerr_string s; s";
    // Some 100 MB of replies.
    for _ in 0..3_500 {
        hasty.begin("eval", json!({ "source": source }));
    }
    drop(hasty);
    assert_eq!(Visitor::at(&served.path).eval("n + 1")["value_repr"], "2");
}

#[test]
fn a_start_that_runs_is_no_idleness() {
    let mut served = serve(BYTECODE, &["--idle-timeout", "0.2"]);
    let go = served.home.path().join("go");
    let done = served.home.path().join("done");
    let prewarm = served.home.path().join("slow.ml");
    let source = format!(
        "#require \"unix\";;\nwhile not (Sys.file_exists {go:?}) do Unix.sleepf 0.01 done;;\nclose_out (open_out {done:?})"
    );
    fs::write(&prewarm, source).unwrap();
    let mut visitor = Visitor::at(&served.path);
    visitor.begin(
        "start_local_session",
        json!({ "session": "a", "prewarm": prewarm }),
    );
    drop(visitor);
    // Five times as long as it may be idle.
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        served.process.child.try_wait().unwrap().is_none(),
        "it is busy"
    );
    fs::write(&go, "").unwrap();
    eventually("the start goes on", || done.exists());
    assert!(served.process.wait().success(), "then it is idle");
}

#[test]
fn a_relative_path_outlives_its_folder() {
    each(|executable| {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("work");
        fs::create_dir(&folder).unwrap();
        let said = home.path().join("stderr");
        let _server = Client::start_with(executable, |command| {
            command.env("HOME", home.path()).current_dir(&folder);
            command
                .env("TOPUP_LOG", "log.ml")
                .env("TOPUP_CHECKPOINT_DIR", "checkpoints");
            command
                .args(["--socket", "../run/a.sock"])
                .stderr(fs::File::create(&said).unwrap());
        });
        let path = home.path().join("run/a.sock");
        eventually("it listens", || UnixStream::connect(&path).is_ok());
        let mut visitor = Visitor::at(&path);
        visitor.eval("let x = 41");
        visitor.call("start_local_session", json!({ "session": "a" }));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(visitor.eval(SEGFAULT)["phase"], "crash");
        let reply = visitor.eval("x + 1");
        assert_eq!(
            reply["value_repr"],
            "42",
            "{reply}, {:?}",
            fs::read_to_string(&said)
        );
        // A fresh process of a session starts as well.
        let reply = visitor.call("eval", json!({ "source": SEGFAULT, "session": "a" }));
        assert_eq!(reply["phase"], "crash", "{reply}");
        let reply = visitor.call("eval", json!({ "source": "1 + 1", "session": "a" }));
        assert_eq!(reply["value_repr"], "2", "{reply}");
        drop(visitor);
        assert_eq!(Visitor::at(&path).eval("x")["value_repr"], "41");
    });
}

#[test]
fn calls_of_a_client_that_has_gone_outlive_a_crash() {
    each(|executable| {
        for by_itself in [true, false] {
            let served = serve(executable, &[]);
            let ready = served.home.path().join("ready");
            let go = served.home.path().join("go");
            let mut first = Visitor::at(&served.path);
            first.call("start_local_session", json!({ "session": "a" }));
            let in_a = |source: &str| json!({ "source": source, "session": "a" });
            first.call("eval", in_a("#require \"unix\";; let n = ref 0"));
            let wait = format!(
                "incr n; close_out (open_out {ready:?}); while not (Sys.file_exists {go:?}) do Unix.sleepf 0.01 done"
            );
            first.begin("eval", in_a(&wait));
            for _ in 0..3 {
                first.begin("eval", in_a("incr n"));
            }
            eventually("the first one runs", || ready.exists());
            let crash = json!({ "source": super::SEGFAULT });
            if by_itself {
                first.begin("eval", crash.clone());
            }
            drop(first);
            let mut second = Visitor::at(&served.path);
            if !by_itself {
                assert_eq!(second.call("eval", crash)["phase"], "crash");
            }
            assert!(super::notice(&second.eval("1")).contains("SIGSEGV"));
            fs::write(&go, "").unwrap();
            second.begin("eval", in_a("!n"));
            assert_eq!(second.receive()["value_repr"], "4", "{by_itself}");
        }
    });
}
