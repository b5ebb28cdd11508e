//! The Rust end of `ocaml/bridge.ml`: boots the OCaml runtime, calls the functions
//! registered there, and turns what they return into plain Rust data.
//!
//! The runtime belongs to the thread that booted it, which holds OCaml's lock except
//! inside [`Runtime::idle`]. Nothing here allocates on OCaml's heap while it holds an
//! OCaml value that it still needs, so no value has to be a root.

#![allow(unsafe_code, reason = "where Rust meets OCaml")]

mod function;
mod primitives;
mod values;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr;

use ocaml::sys::{self, Value};

use crate::error::BootError;
use crate::outcome::{Bindings, Loaded, Outcome, Program, Project};
use crate::query::{Completions, Definition, Typechecked};
use crate::{Variant, command, debug_info, interrupt, user_code};

use function::{Function, UNIT, count, immediate, ocaml_string, result};
pub use primitives::{Recorder, no_replay, replaying};

unsafe extern "C" {
    // caml/callback.h; as caml_startup, but an exception at start is returned.
    fn caml_startup_exn(argv: *const *const sys::Char) -> Value;
    // caml/signals.h
    fn caml_enter_blocking_section_no_pending();
    fn caml_leave_blocking_section();
    fn caml_process_pending_actions_exn() -> Value;
    // stdio.h; C stubs print through it.
    fn fflush(stream: *mut libc::c_void) -> libc::c_int;
}

/// The OCaml runtime of this process. Neither `Send` nor `Sync`: one thread owns it.
pub struct Runtime {
    eval: Function,
    replay: Function,
    recover: Function,
    reset: Function,
    env: Function,
    program: Function,
    load: Function,
    load_project: Function,
    packages: Function,
    by_hand: Function,
    lookup: Function,
    typecheck: Function,
    complete: Function,
    flush: Function,
    /// What was raised while nothing was evaluated.
    strays: RefCell<Vec<String>>,
    thread: PhantomData<*const ()>,
}

impl Runtime {
    /// Boots the runtime and the toplevel in it. Call once in a process. `record` gets the
    /// text of each phrase for the phrase log, as soon as it has succeeded.
    pub fn boot(variant: Variant, record: Recorder) -> Result<Runtime, BootError> {
        primitives::record_with(record);
        command::remember_path();
        let start = || {
            let argv = [c"topup".as_ptr().cast::<sys::Char>(), ptr::null()];
            // SAFETY: argv is null-terminated; its strings are static.
            result(unsafe { caml_startup_exn(argv.as_ptr()) }).map_err(BootError)
        };
        match variant {
            Variant::Bytecode => debug_info::offered(start)?,
            Variant::Native => start()?,
        };
        let boot = Function::named(c"topup_boot")?;
        interrupt::adopt(|| boot.call(UNIT)).map_err(BootError)?;
        Ok(Runtime {
            eval: Function::named(c"topup_eval")?,
            replay: Function::named(c"topup_replay")?,
            recover: Function::named(c"topup_recover")?,
            reset: Function::named(c"topup_reset")?,
            env: Function::named(c"topup_env")?,
            program: Function::named(c"topup_program")?,
            load: Function::named(c"topup_load")?,
            load_project: Function::named(c"topup_load_project")?,
            packages: Function::named(c"topup_packages")?,
            by_hand: Function::named(c"topup_by_hand")?,
            lookup: Function::named(c"topup_lookup")?,
            typecheck: Function::named(c"topup_typecheck")?,
            complete: Function::named(c"topup_complete")?,
            flush: Function::named(c"topup_flush")?,
            strays: RefCell::default(),
            thread: PhantomData,
        })
    }

    /// Runs `source` in the toplevel. An error here is a fault of topup: user code's
    /// own failures are part of the outcome.
    pub fn eval(&self, source: &[u8]) -> Result<Outcome, String> {
        self.run(&self.eval, source)
    }

    /// As `eval`, without what the phrases before the last print.
    pub fn replay(&self, source: &[u8]) -> Result<Outcome, String> {
        self.run(&self.replay, source)
    }

    fn run(&self, function: &Function, source: &[u8]) -> Result<Outcome, String> {
        // SAFETY: the value is handed on at once.
        let outcome = function.call(unsafe { ocaml_string(source) })?;
        // SAFETY: both functions return an `Outcome.t`, and nothing below allocates.
        Ok(unsafe { values::outcome(outcome) })
    }

    /// Runs the phrases of a phrase log again, without those whose numbers `skip` has;
    /// returns the numbers and errors of those that fail.
    pub fn recover(&self, skip: &[usize], log: &[u8]) -> Result<Vec<(usize, String)>, String> {
        let skip: Vec<String> = skip.iter().map(usize::to_string).collect();
        let lost = self.recover.call_texts(skip.join(" ").as_bytes(), log)?;
        // SAFETY: `Toplevel.recover` returns such a list, and nothing below allocates.
        Ok(unsafe { values::list(lost, |v| values::numbered(v)) })
    }

    /// Makes it a toplevel in which nothing has happened.
    pub fn reset(&self) -> Result<(), String> {
        self.reset.call(UNIT).map(drop)
    }

    /// The value bindings whose names contain `filter` (see `ocaml/workspace.mli`).
    pub fn env(&self, filter: &str, all: bool, limit: usize) -> Result<Bindings, String> {
        // SAFETY: the string is handed on at once, the other arguments are immediate.
        let pair = self.env.call3(
            unsafe { ocaml_string(filter.as_bytes()) },
            immediate(all as Value),
            count(limit),
        )?;
        // SAFETY: `Toplevel.env` returns such a pair, and nothing below allocates.
        Ok(unsafe { values::bindings(pair) })
    }

    /// The program of a phrase log (see `ocaml/program.mli`). The inner error says why
    /// `entry` will not do.
    pub fn program(&self, entry: &str, log: &[u8]) -> Result<Result<Program, String>, String> {
        let result = self.program.call_texts(entry.as_bytes(), log)?;
        // SAFETY: `Toplevel.program` returns such a result, and nothing below allocates.
        Ok(unsafe { values::result(result, |v| values::program(v)) })
    }

    /// Links a file of compiled code and runs its initialisers.
    pub fn load(&self, path: &[u8]) -> Result<Loaded, String> {
        // SAFETY: the value is handed on at once.
        let pair = self.load.call(unsafe { ocaml_string(path) })?;
        // SAFETY: `Toplevel.load` returns such a pair, and nothing below allocates.
        Ok(unsafe { values::loaded(pair) })
    }

    /// Builds a dune project and links its libraries.
    pub fn load_project(&self, folder: &[u8]) -> Result<Project, String> {
        // SAFETY: the value is handed on at once.
        let project = self.load_project.call(unsafe { ocaml_string(folder) })?;
        // SAFETY: `Toplevel.load_project` returns one, and nothing below allocates.
        Ok(unsafe { values::project(project) })
    }

    /// The files of compiled code that no phrase of the log brings back.
    pub fn loaded_by_hand(&self) -> Result<Vec<String>, String> {
        let files = self.by_hand.call(UNIT)?;
        // SAFETY: `Archive.by_hand` returns a list of strings, and nothing below allocates.
        Ok(unsafe { values::list(files, |file| values::string(file)) })
    }

    /// The packages that the session required by name, in order.
    pub fn packages(&self) -> Result<Vec<String>, String> {
        let names = self.packages.call(UNIT)?;
        // SAFETY: `Toplevel.packages` returns a list of strings, and nothing below allocates.
        Ok(unsafe { values::list(names, |name| values::string(name)) })
    }

    /// What a name stands for (see `ocaml/lookup.mli`); the inner error is about the name.
    pub fn lookup(&self, name: &str) -> Result<Result<Definition, String>, String> {
        // SAFETY: the value is handed on at once.
        let found = self.lookup.call(unsafe { ocaml_string(name.as_bytes()) })?;
        // SAFETY: `Toplevel.lookup` returns such a result, and nothing below allocates.
        Ok(unsafe { values::result(found, |v| values::definition(v)) })
    }

    /// Type-checks a source without running it (see `ocaml/typecheck.mli`).
    pub fn typecheck(&self, source: &[u8]) -> Result<Typechecked, String> {
        // SAFETY: the value is handed on at once.
        let pair = self.typecheck.call(unsafe { ocaml_string(source) })?;
        // SAFETY: `Toplevel.typecheck` returns such a pair, and nothing below allocates.
        Ok(unsafe { values::typechecked(pair) })
    }

    /// The completions at a place of a source, in bytes (see `ocaml/completion.mli`).
    pub fn complete(
        &self,
        source: &[u8],
        offset: usize,
        limit: usize,
    ) -> Result<Completions, String> {
        // SAFETY: the string is handed on at once, the other arguments are immediate.
        let found =
            self.complete
                .call3(unsafe { ocaml_string(source) }, count(offset), count(limit))?;
        // SAFETY: `Toplevel.complete` returns a `Completion.t`, and nothing below allocates.
        Ok(unsafe { values::completions(found) })
    }

    /// Empties OCaml's and C's buffers for stdout and stderr. False if OCaml's could not be
    /// written; then they hold what they held.
    pub fn flush(&self) -> bool {
        self.settle();
        let flushed = self.flush.call(UNIT).or_else(|stray| {
            self.strays.borrow_mut().push(stray);
            self.flush.call(UNIT)
        });
        let flushed = flushed.unwrap_or_else(|reason| {
            log::warn!("flushing OCaml's channels: {reason}");
            immediate(0)
        });
        // SAFETY: a null stream means all streams.
        unsafe { fflush(ptr::null_mut()) };
        flushed == immediate(1)
    }

    /// Ends the process as a program ends, in a child that user code forked: here it has come
    /// back from the phrase, and nobody but its parent waits for it.
    pub fn end(&self, status: i32) -> ! {
        let at_exit = Function::named(c"Pervasives.do_at_exit");
        let done = at_exit.map_err(|error| error.0).and_then(|f| f.call(UNIT));
        if let Err(reason) = &done {
            eprintln!("{reason}");
        }
        std::process::exit(if done.is_err() { 2 } else { status })
    }

    /// Runs `wait` without OCaml's lock, so that OCaml threads and domains go on.
    pub fn idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.settle();
        // SAFETY: called by the owning thread with the lock held; `wait` is Rust that
        // knows no OCaml value, and the lock is taken again before we return. Signals that
        // came since are left for later: here nobody could catch what a handler raises.
        unsafe { caml_enter_blocking_section_no_pending() };
        let result = wait();
        unsafe { caml_leave_blocking_section() };
        self.settle();
        result
    }

    /// Runs what user code has left to be run at some time, as handlers of signals and
    /// finalisers; what they raise has nobody to go to.
    fn settle(&self) {
        /// There may always be another one.
        const MOST: usize = 100;
        let mut strays = self.strays.borrow_mut();
        user_code::within(|| {
            for _ in 0..MOST {
                // SAFETY: the owning thread calls with the lock held, and knows no OCaml value.
                match result(unsafe { caml_process_pending_actions_exn() }) {
                    Ok(_) => return,
                    Err(stray) if strays.contains(&stray) => {}
                    Err(stray) => strays.push(stray),
                }
            }
        })
    }

    /// What was raised while nothing was evaluated; once.
    pub fn strays(&self) -> Vec<String> {
        self.strays.take()
    }
}
