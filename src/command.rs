//! `Sys.command` for user code, in place of the runtime's own (whose symbol build.rs makes
//! weak; OCaml code of both variants, loaded at any time, calls this one).
//!
//! It differs in two ways. It flushes first, so that what was printed before a command
//! comes before what the command prints. And an interrupt reaches the command: C's
//! `system` ignores SIGINT while it waits, here it ends the command's process group.

#![allow(unsafe_code, reason = "an OCaml primitive")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ocaml::sys::{self, Value};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::process_group::{self, Group};
use crate::{crash, interrupt};

unsafe extern "C" {
    // caml/memory.h; the same signature in every version of OCaml.
    fn caml_register_generational_global_root(value: *mut Value);
    fn caml_remove_generational_global_root(value: *mut Value);
    // caml/signals.h
    fn caml_enter_blocking_section();
    fn caml_leave_blocking_section();
    fn caml_process_pending_actions_exn() -> Value;
    // caml/fail.h; these do not return.
    fn caml_raise(exn: Value) -> !;
    fn caml_raise_sys_error(message: Value) -> !;
}

/// The primitive `caml_sys_system_command`: `string -> int`.
///
/// # Safety
///
/// OCaml calls it with its lock held and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn caml_sys_system_command(command: Value) -> Value {
    // SAFETY: `flush_before` roots the value while OCaml code runs. The two functions that
    // do not return are called when no Rust value with a destructor is alive.
    unsafe {
        let command = flush_before(command);
        match run(command) {
            Ok(End::Status(status)) => (status as Value) << 1 | 1,
            Ok(End::Raised(exn)) => caml_raise(exn),
            Err(message) => caml_raise_sys_error(message),
        }
    }
}

/// Whether the compiler runs its own tools.
static COMPILING: AtomicBool = AtomicBool::new(false);
/// Where they are.
static PATH: OnceLock<OsString> = OnceLock::new();

/// The primitive `topup_compiling : bool -> unit`: whether commands from here on are those of
/// the compiler, which finds its tools where they were when the process began.
///
/// # Safety
///
/// OCaml calls it with a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_compiling(begins: Value) -> Value {
    COMPILING.store(begins >> 1 != 0, Ordering::Relaxed);
    sys::UNIT
}

/// To be called before user code runs.
pub fn remember_path() {
    if let Some(path) = std::env::var_os("PATH") {
        PATH.get_or_init(|| path);
    }
}

enum End {
    Status(i32),
    /// A signal handler raised; the command has ended.
    Raised(Value),
}

/// Flushes OCaml's channels and returns the string, which may have moved. A flush that
/// fails (a full disk, a closed stdout) must not stop the command.
unsafe fn flush_before(mut command: Value) -> Value {
    // SAFETY: the named value is a root of the runtime; the string is one meanwhile.
    unsafe {
        let flush = sys::caml_named_value(c"topup_flush".as_ptr().cast());
        if !flush.is_null() {
            caml_register_generational_global_root(&mut command);
            sys::caml_callback_exn(*flush, sys::UNIT);
            caml_remove_generational_global_root(&mut command);
        }
    }
    command
}

/// Runs the command; an error is an OCaml string.
unsafe fn run(command: Value) -> Result<End, Value> {
    // SAFETY: the value is an OCaml string, copied before anything can move it.
    let text = unsafe {
        let length = sys::caml_string_length(command);
        std::slice::from_raw_parts(sys::string_val(command).cast::<u8>(), length).to_vec()
    };
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(&text));
    if COMPILING.load(Ordering::Relaxed) && interrupt::on_eval_thread() {
        // User code may have changed the one and removed the other; the paths are absolute.
        shell.current_dir("/");
        if let Some(path) = PATH.get() {
            shell.env("PATH", path);
        }
    } else if crash::is_worker() {
        ends_with_us(&mut shell);
    }
    match Group::spawn(&mut shell) {
        Ok(group) => Ok(unsafe { wait(group.id()) }),
        Err(error) => {
            let reason = match error.kind() {
                io::ErrorKind::InvalidInput => "Invalid argument".to_string(),
                _ => error.to_string(),
            };
            let message = format!("{}: {reason}", String::from_utf8_lossy(&text));
            // SAFETY: the bytes are copied.
            Err(unsafe {
                sys::caml_alloc_initialized_string(message.len(), message.as_ptr().cast())
            })
        }
    }
}

/// The command's first process is killed when this one ends, however that comes about: with
/// a worker's server the worker is killed, which can then end no more what it has started.
fn ends_with_us(command: &mut Command) {
    let us = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        match getppid() == Some(us) {
            true => Ok(()),
            // It was too late.
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: two system calls.
    unsafe { command.pre_exec(bind) };
}

/// Waits for the child without OCaml's lock; runs OCaml's signal handlers when interrupted.
unsafe fn wait(pid: libc::pid_t) -> End {
    loop {
        let mut status = 0;
        // SAFETY: no OCaml value is in use while the lock is given up.
        let (waited, error) = unsafe {
            caml_enter_blocking_section();
            let waited = libc::waitpid(pid, &mut status, 0);
            let error = io::Error::last_os_error();
            caml_leave_blocking_section();
            (waited, error)
        };
        if waited == pid {
            process_group::forget(pid);
            return End::Status(match libc::WIFEXITED(status) {
                true => libc::WEXITSTATUS(status),
                // What the runtime's own function returns for a signal.
                false => 255,
            });
        }
        if error.kind() != io::ErrorKind::Interrupted {
            return End::Status(255);
        }
        // SAFETY: runs OCaml code with the lock held; an exception is returned.
        let pending = unsafe { caml_process_pending_actions_exn() };
        if pending & 3 == 2 {
            end_group(pid);
            process_group::forget(pid);
            return End::Raised(pending & !3);
        }
    }
}

/// Asks the command's process group to end, and makes it.
fn end_group(pid: libc::pid_t) {
    process_group::signal(pid, Signal::INT);
    for _ in 0..50 {
        // SAFETY: a plain system call on a child that was not waited for yet.
        if unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } == pid {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    process_group::signal(pid, Signal::KILL);
    // SAFETY: as above.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}
