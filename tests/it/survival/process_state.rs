//! What user code changes of the process: it stays as far as it is user code's, and the wire,
//! the output and the replies are whole.

use super::cases::{Case, HARM, Reply, UNIX, run};
use super::session::each;

#[test]
fn our_descriptors_cannot_be_closed_or_replaced() {
    run(&[
        Case {
            what: "closed one by one",
            needs: &[UNIX],
            source: "for n = 0 to 1023 do try Unix.close (Obj.magic n) with Unix.Unix_error (EBADF, _, _) -> () done",
            reply: Reply::Value("()"),
        },
        Case {
            what: "closed by C code",
            needs: &[HARM],
            source: "for n = 0 to 1023 do ignore (Harm.close n) done",
            reply: Reply::Value("()"),
        },
        Case {
            what: "closed at once",
            needs: &[HARM],
            source: "Harm.close_range 0 max_int",
            reply: Reply::Value("0"),
        },
        Case {
            what: "closed from one on",
            needs: &[HARM],
            source: "Harm.close_from 3",
            reply: Reply::Value("()"),
        },
        Case {
            what: "closed by a thread that goes on",
            needs: &["#thread;; #require \"threads.posix\""],
            source: "ignore (Thread.create (fun () -> while true do
                       for n = 3 to 200 do try Unix.close (Obj.magic n) with _ -> () done;
                       Thread.yield () done) ())",
            reply: Reply::Meddles("()"),
        },
        Case {
            what: "replaced",
            needs: &[UNIX],
            source: "let null = Unix.openfile \"/dev/null\" [O_RDWR] 0 in
                     for n = 0 to 1023 do
                       try Unix.dup2 null (Obj.magic n); if n > 2 then Unix.close (Obj.magic n)
                       with Unix.Unix_error (EBADF, _, _) -> ()
                     done",
            reply: Reply::Value("()"),
        },
        Case {
            what: "made not to block",
            needs: &[HARM],
            source: "for n = 0 to 1023 do ignore (Harm.nonblock n) done",
            reply: Reply::Value("()"),
        },
        Case {
            what: "the streams of C",
            needs: &[HARM],
            source: "Harm.close_streams ()",
            reply: Reply::Value("()"),
        },
    ]);
}

/// Numbers of user code's own are closed as ever, though ours had them once.
#[test]
fn descriptors_of_user_code_are_its_own() {
    each(|mut session| {
        session.prepare(UNIX);
        // A long output makes us replace the file behind stdout.
        session.prepare("print_string (String.make 100_000 'x')");
        session.reset();
        session.prepare(UNIX);
        let reply = session.eval(
            "let opened = List.init 300 (fun _ -> Unix.openfile \"/dev/null\" [] 0) in
             List.iter Unix.close opened;
             (List.for_all (fun fd -> match Unix.fstat fd with _ -> false | exception Unix.Unix_error (EBADF, _, _) -> true) opened)",
        );
        assert_eq!(reply["value_repr"], "true", "{reply}");
        session.end();
    });
}

#[test]
fn output_comes_after_its_descriptors_were_lost() {
    const LOSSES: [&str; 5] = [
        "Unix.close Unix.stdout; Unix.close Unix.stderr; Unix.close Unix.stdin",
        "Unix.dup2 (Unix.openfile \"/dev/null\" [O_RDWR] 0) Unix.stdout",
        "Unix.ftruncate Unix.stdout 0",
        "set_binary_mode_out stdout true; seek_out stdout 1000",
        "Format.set_formatter_out_channel stderr;; Format.set_formatter_out_channel stdout",
    ];
    each(|mut session| {
        session.prepare(UNIX);
        for loss in LOSSES {
            session.eval(loss);
            let reply = session
                .eval("print_string \"out\"; prerr_string \"err\"; Sys.command \"echo sub\"");
            assert_eq!(reply["stdout"], "outsub\n", "{loss}: {reply}");
            assert_eq!(reply["stderr"], "err", "{loss}: {reply}");
            let stdin = session.eval("Unix.read Unix.stdin (Bytes.create 1) 0 1");
            assert_eq!(stdin["value_repr"], "0", "{loss}: {stdin}");
        }
        session.end();
    });
}

#[test]
fn limits_leave_room_for_the_toplevel() {
    run(&[
        Case {
            what: "no more files",
            needs: &[HARM],
            source: "Harm.limit 7 0",
            reply: Reply::Value("()"),
        },
        Case {
            what: "no more files, in a crash",
            needs: &[HARM],
            source: "Harm.limit 7 0; Harm.abort ()",
            reply: Reply::Crash(Some("SIGABRT")),
        },
        Case {
            what: "no files longer than nothing, in a crash",
            needs: &[HARM],
            source: "Harm.limit 1 0; Harm.abort ()",
            reply: Reply::Crash(Some("SIGABRT")),
        },
        Case {
            what: "a second of the processor",
            needs: &[HARM],
            source: "Harm.limit 0 1; while true do () done",
            reply: Reply::Crash(Some("SIGXCPU")),
        },
    ]);
}

#[test]
fn a_fresh_start_has_the_limits_and_the_mask_of_the_beginning() {
    each(|mut session| {
        session.prepare(UNIX);
        session.load_harm();
        let before = session.eval("Harm.soft 4, Unix.umask 0o777")["value_repr"].clone();
        // What it asked for is what it has.
        session.prepare("Harm.limit 4 12345");
        assert_eq!(session.eval("Harm.soft 4")["value_repr"], "12345");
        assert_eq!(session.eval("Unix.umask 0o777")["value_repr"], "511");
        assert_eq!(session.eval("1 + 1")["value_repr"], "2");
        session.reset();
        session.prepare(UNIX);
        session.load_harm();
        let after = session.eval("Harm.soft 4, Unix.umask 0o777");
        assert_eq!(after["value_repr"], before, "{after}");
        session.end();
    });
}

/// What it sets is there for the next evaluation, which works.
#[test]
fn what_user_code_sets_stays() {
    const SETTINGS: [(&str, &str, &str); 6] = [
        (
            "let d = Filename.temp_file \"topup\" \"\" in Sys.remove d; Sys.mkdir d 0o700; Sys.chdir d; Sys.rmdir d",
            "try Sys.getcwd () with Sys_error _ -> \"gone\"",
            "\"gone\"",
        ),
        ("Sys.chdir \"/\"", "Sys.getcwd ()", "\"/\""),
        (
            "Unix.putenv \"PATH\" \"/nowhere\"; Unix.putenv \"HOME\" \"/nowhere\"",
            "Sys.getenv \"PATH\" ^ Sys.getenv \"HOME\"",
            "\"/nowhere/nowhere\"",
        ),
        ("ignore (Unix.umask 0o70)", "Unix.umask 0o70", "56"),
        ("Format.set_margin 50", "Format.get_margin ()", "50"),
        ("Sys.argv.(0) <- \"mine\"", "Sys.argv.(0)", "\"mine\""),
    ];
    each(|mut session| {
        session.prepare(UNIX);
        for (set, get, value) in SETTINGS {
            session.prepare(set);
            let reply = session.eval(get);
            assert_eq!(reply["value_repr"], value, "{set}: {reply}");
            assert_eq!(reply["stderr"], "", "{set}: {reply}");
        }
        session.end();
    });
}

/// Hooks of the standard library and of the compiler, and state that the toplevel shares.
#[test]
fn hooks_that_raise_and_settings_of_the_toplevel_do_not_end_replies() {
    const HOOKS: [&str; 10] = [
        "Format.set_formatter_output_functions (fun _ _ _ -> failwith \"out\") (fun () -> failwith \"flush\")",
        "Format.pp_set_formatter_stag_functions Format.std_formatter { mark_open_stag = (fun _ -> failwith \"a\"); mark_close_stag = (fun _ -> failwith \"b\"); print_open_stag = (fun _ -> failwith \"c\"); print_close_stag = (fun _ -> failwith \"d\") };; Format.set_tags true",
        "Format.set_margin 3",
        "Printexc.register_printer (fun _ -> failwith \"printer\")",
        "Printexc.set_uncaught_exception_handler (fun _ _ -> exit 9)",
        "Printexc.record_backtrace false",
        "Sys.interactive := false",
        "close_out stdout",
        "Gc.finalise (fun _ -> failwith \"finaliser\") (ref 1)",
        "Harm.locale \"C.UTF-8\"",
    ];
    each(|mut session| {
        session.prepare("let x = 41");
        session.load_harm();
        for hook in HOOKS {
            session.eval(hook);
            // Whatever these come to, each is answered, and what comes after is itself.
            session.eval("Format.printf \"said@.\"; failwith \"mine\"");
            session.eval("Gc.full_major ()");
            let reply = session.eval("1 + \"a\"");
            let error = reply["error"].as_str().unwrap_or_default();
            assert!(
                error.contains("but an expression was expected of"),
                "{hook}: {reply}"
            );
            let reply = session.eval("x + 1");
            assert_eq!(reply["value_repr"], "42", "{hook}: {reply}");
        }
        session.end();
    });
}
