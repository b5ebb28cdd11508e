//! Processes, threads and domains that user code starts.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::cases::{CRASH, Case, HARM, Reply, THREADS, UNIX, run};
use super::session::each;
use crate::support::toolchain;

#[test]
fn a_child_that_was_forked_ends_like_a_program() {
    run(&[
        Case {
            what: "comes back from the phrase",
            needs: &[UNIX],
            source: "match Unix.fork () with 0 -> Unix.WSTOPPED 0 | pid -> snd (Unix.waitpid [] pid)",
            reply: Reply::Value("Unix.WEXITED 0"),
        },
        Case {
            what: "goes on with the next phrases",
            needs: &[UNIX],
            source: "let pid = Unix.fork ();; let y = 5;;
                     if pid = 0 then Unix.WSTOPPED 0 else snd (Unix.waitpid [] pid)",
            reply: Reply::Value("Unix.WEXITED 0"),
        },
        Case {
            what: "raises",
            needs: &[UNIX],
            source: "match Unix.fork () with 0 -> failwith \"child\" | pid -> snd (Unix.waitpid [] pid)",
            reply: Reply::Value("Unix.WEXITED 2"),
        },
        Case {
            what: "exits",
            needs: &[UNIX],
            source: "match Unix.fork () with 0 -> exit 7 | pid -> snd (Unix.waitpid [] pid)",
            reply: Reply::Value("Unix.WEXITED 7"),
        },
        Case {
            what: "_exits",
            needs: &[UNIX],
            source: "match Unix.fork () with 0 -> Unix._exit 8 | pid -> snd (Unix.waitpid [] pid)",
            reply: Reply::Value("Unix.WEXITED 8"),
        },
        Case {
            what: "crashes",
            needs: &[UNIX],
            source: "match Unix.fork () with
                     | 0 -> String.length (Obj.magic 3 : string ref).contents
                     | pid -> match snd (Unix.waitpid [] pid) with WSIGNALED s -> s - Sys.sigsegv | _ -> 1",
            reply: Reply::Value("0"),
        },
        Case {
            what: "closes every descriptor, one by one and at once",
            needs: &[UNIX, HARM],
            source: "match Unix.fork () with
                     | 0 ->
                       let open_ = ref 0 in
                       for n = 3 to 1023 do if Harm.close n = 0 then incr open_ done;
                       Unix._exit (if !open_ = 0 && Harm.close_range 0 1023 = 0 then 5 else 6)
                     | pid -> snd (Unix.waitpid [] pid)",
            reply: Reply::Value("Unix.WEXITED 5"),
        },
    ]);
}

/// It prints to the evaluation's output, runs `at_exit`, and writes to no log of its parent.
#[test]
fn a_child_that_was_forked_prints_and_leaves_the_log_alone() {
    each(|mut session| {
        session.prepare(UNIX);
        session.prepare("let me = Unix.getpid ();; at_exit (fun () -> if Unix.getpid () <> me then print_string \"bye\")");
        let reply = session.eval(
            "let pid = Unix.fork ();;
             if pid > 0 then ignore (Unix.waitpid [] pid) else print_string \"child \"",
        );
        assert_eq!(reply["stdout"], "child bye", "{reply}");
        let (reply, _) = session
            .client
            .call("checkpoint", serde_json::json!({ "label": "forked" }));
        // The package, two phrases, and the two of the fork, once.
        assert_eq!(reply["phrases"], 5, "{reply}");
        session.end();
    });
}

/// The client hears that the connection has ended though a child lives on.
#[test]
fn a_child_that_lives_on_does_not_hold_the_connection() {
    each(|mut session| {
        session.prepare(UNIX);
        let reply = session.eval("match Unix.fork () with 0 -> Unix.sleep 1000 | pid -> exit pid");
        let error = reply["error"].as_str().expect("an exit");
        let pid: u32 = error["exit ".len()..error.find(':').expect("a number")]
            .parse()
            .expect("a number");
        // Reads to the end of the output.
        session.end();
        assert!(lives(pid), "{pid} has ended");
        kill(pid);
    });
}

#[test]
fn threads_and_domains_cost_nothing() {
    run(&[
        Case {
            what: "a thread that loops",
            needs: &[THREADS],
            source: "ignore (Thread.create (fun () -> while true do () done) ())",
            reply: Reply::Value("()"),
        },
        Case {
            what: "a thread that raises",
            needs: &[THREADS],
            source: "Thread.join (Thread.create (fun () -> failwith \"mine\") ())",
            reply: Reply::Value("()"),
        },
        Case {
            what: "a thread that exits",
            needs: &[THREADS],
            source: "Thread.join (Thread.create (fun () -> exit 3) ())",
            reply: Reply::Value("()"),
        },
        Case {
            what: "many threads that wait",
            needs: &[THREADS],
            source: "for _ = 1 to 500 do ignore (Thread.create Thread.delay 1000.) done",
            reply: Reply::Value("()"),
        },
    ]);
    if !toolchain("version").starts_with('5') {
        return;
    }
    run(&[
        Case {
            what: "the end of the main thread",
            needs: &[THREADS],
            source: "Thread.exit ()",
            reply: Reply::Error("Thread.Exit"),
        },
        Case {
            what: "a domain that loops",
            needs: &[],
            source: "ignore (Domain.spawn (fun () -> while true do () done))",
            reply: Reply::Value("()"),
        },
        Case {
            what: "a domain that raises",
            needs: &[],
            source: "Domain.join (Domain.spawn (fun () -> failwith \"mine\"))",
            reply: Reply::Error("mine"),
        },
        Case {
            what: "a domain that exits",
            needs: &[],
            source: "Domain.join (Domain.spawn (fun () -> exit 3))",
            reply: Reply::Error("exit 3"),
        },
        Case {
            what: "more domains than there can be",
            needs: &[UNIX],
            source: "List.init 1000 (fun _ -> Domain.spawn (fun () -> Unix.sleep 1000))",
            reply: Reply::Error("failed to allocate domain"),
        },
    ]);
}

#[test]
fn commands_of_a_crashed_evaluation_are_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let path = pid.display();
    each(|mut session| {
        let _ = fs::remove_file(&pid);
        session.prepare(THREADS);
        session.eval(&format!(
            "ignore (Thread.create (fun () -> while not (Sys.file_exists \"{path}\") do Thread.delay 0.01 done; {CRASH}) ()); Sys.command \"sleep 600 & echo $! >{path}.new; mv {path}.new {path}; wait\""
        ));
        let child = fs::read_to_string(&pid).expect("the command began");
        let child = child.trim().parse().expect("a number");
        let limit = Instant::now() + Duration::from_secs(30);
        while lives(child) {
            assert!(Instant::now() < limit, "the command goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
        let reply = session.eval("1 + 1");
        assert_eq!(reply["value_repr"], "2", "{reply}");
        session.end();
    });
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that nobody has waited for has ended all the same.
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn kill(pid: u32) {
    let script = format!("kill -s KILL {pid}");
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.is_ok_and(|status| status.success()), "{script}");
}
