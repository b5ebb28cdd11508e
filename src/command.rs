//! `Sys.command` for user code, in place of the runtime's own (whose symbol build.rs makes
//! weak; OCaml code of both variants, loaded at any time, calls this one).
//!
//! It differs in two ways. It flushes first, so that what was printed before a command
//! comes before what the command prints. And an interrupt reaches the command: C's
//! `system` ignores SIGINT while it waits, here it ends the command's process group.

#![allow(unsafe_code, reason = "an OCaml primitive")]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ocaml::sys::{self, Value};

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

/// The process groups of commands that run now.
static RUNNING: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

/// Ends the commands that run and lets no more begin; to be called when the process is
/// about to end.
pub fn end_all() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        for group in running.iter() {
            // SAFETY: a plain system call. The children have not been waited for while
            // their numbers stand in the list.
            unsafe { libc::kill(-group, signal) };
        }
        if signal == libc::SIGTERM && !running.is_empty() {
            std::thread::sleep(GRACE);
        }
    }
    std::mem::forget(running);
}

/// What a command has to end by itself.
const GRACE: Duration = Duration::from_millis(100);

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
    shell
        .arg("-c")
        .arg(OsStr::from_bytes(&text))
        .process_group(0);
    // Started and listed in one step, so that `end_all` misses none.
    let spawned = list(|running| {
        shell
            .spawn()
            .inspect(|child| running.push(child.id() as libc::pid_t))
    });
    match spawned {
        Ok(child) => Ok(unsafe { wait(child.id() as libc::pid_t) }),
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

fn list<T>(change: impl FnOnce(&mut Vec<libc::pid_t>) -> T) -> T {
    change(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
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
            list(|running| running.retain(|group| *group != pid));
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
            list(|running| running.retain(|group| *group != pid));
            end_group(pid);
            return End::Raised(pending & !3);
        }
    }
}

/// Asks the command's process group to end, and makes it.
fn end_group(pid: libc::pid_t) {
    // SAFETY: plain system calls on a child that was not waited for yet, so that neither
    // its number nor its group's can belong to another process.
    unsafe {
        libc::kill(-pid, libc::SIGINT);
        for _ in 0..50 {
            if libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) == pid {
                return;
            }
            libc::usleep(2_000);
        }
        libc::kill(-pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}
