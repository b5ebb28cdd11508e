//! What user code can do to end this process, and does not: fatal signals, and C's ways to
//! exit, which `src/exits.rs` catches.
//!
//! The thread on which it happens stays where it is, and the event loop is told, which
//! hands everything on to a fresh image of the program (`src/reexec.rs`). The handlers here
//! call nothing but getpid, gettid, write, sigaction, raise, pause and the handlers that
//! they stand before.

#![allow(unsafe_code, reason = "signal handlers")]

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::end::End;
use crate::signals::{ASKED, FAULTS, STOPS, watched};
use crate::{dispositions, exits};

static PIPE: AtomicI32 = AtomicI32::new(-1);
static PROCESS: AtomicI32 = AtomicI32::new(0);
static LOOP_THREAD: AtomicI32 = AtomicI32::new(0);
/// The process number of a worker.
static WORKER: AtomicI32 = AtomicI32::new(-1);
static IGNORES_HANGUP: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);
/// The handlers that ours stand before, by number; 0 and 1 are the default and none.
static BEFORE: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// Installs the handlers; the ends that come arrive at `ends`. To be called once, on the
/// thread of the event loop, behind everything else that installs handlers.
pub fn watch(ends: mpsc::UnboundedSender<End>) -> io::Result<()> {
    let (read, write) = StdStream::pair()?;
    read.set_nonblocking(true)?;
    let mut read = UnixStream::from_std(read)?;
    // SAFETY: no preconditions.
    unsafe {
        PROCESS.store(libc::getpid(), Ordering::Relaxed);
        LOOP_THREAD.store(libc::gettid(), Ordering::Relaxed);
    }
    exits::watch();
    PIPE.store(write.as_raw_fd(), Ordering::Release);
    let _ = write.into_raw_fd();
    for signal in watched() {
        let theirs = stand_before(signal);
        BEFORE[signal as usize].store(theirs, Ordering::Relaxed);
    }
    tokio::spawn(async move {
        let mut message = [0; 8];
        while read.read_exact(&mut message).await.is_ok() {
            let [kind, code] = [0, 4].map(|at| {
                let bytes = [0, 1, 2, 3].map(|i| message[at + i]);
                i32::from_ne_bytes(bytes)
            });
            let end = if kind == 0 {
                End::Signal(code)
            } else {
                End::Exit(code)
            };
            if ends.send(end).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Leaves all these signals to the thread that calls [`take_signals`]: one that user code
/// sends to its own process must come before the phrase goes on. To be called
/// while there is one thread.
pub fn leave_signals() {
    mask(libc::SIG_BLOCK);
}

/// The calling thread is the one that runs user code.
pub fn take_signals() {
    mask(libc::SIG_UNBLOCK);
}

fn mask(how: libc::c_int) {
    // SAFETY: the set is zeroed, which is a valid value, and then emptied and filled.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in watched().chain([libc::SIGINT]) {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

/// In a worker, before OCaml is up: faults end it as they end any program, and its parent
/// learns of that.
pub fn leave_faults() {
    // SAFETY: the action is zeroed, which is the default one.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in FAULTS {
            dispositions::set(signal, &default, std::ptr::null_mut());
        }
    }
}

/// In a worker: OCaml's `exit` ends the evaluation and not this process.
pub fn keep_from_exit() {
    // SAFETY: no preconditions.
    WORKER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Whether OCaml's `exit` ends the evaluation alone.
pub fn keeps_from_exit() -> bool {
    prevents_exit() || is_worker()
}

/// Whether this process is a worker, and not a child that user code forked.
pub fn is_worker() -> bool {
    // SAFETY: no preconditions.
    WORKER.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

/// A SIGHUP from others is no reason to end.
pub fn ignore_hangup() {
    IGNORES_HANGUP.store(true, Ordering::Relaxed);
}

/// The process is about to end because we want it to.
pub fn ending() {
    ENDING.store(true, Ordering::Release);
}

/// Whether OCaml code may not have `signal` for itself.
pub fn owns(signal: i32) -> bool {
    serves() && (FAULTS.contains(&signal) || ASKED.contains(&signal))
}

/// Whether C code may not have `action` for `signal`. Handlers for faults are how some
/// libraries work; the default would end us.
pub fn refuses(signal: i32, action: usize) -> bool {
    if is_worker() {
        return signal == libc::SIGINT;
    }
    let default = action == libc::SIG_DFL;
    let handled = !default && action != libc::SIG_IGN;
    serves()
        && (signal == libc::SIGINT
            || ASKED.contains(&signal)
            || (FAULTS.contains(&signal) && !handled)
            || (default && watched().any(|watched| watched == signal)))
}

/// Puts our handler in place again, after user code asked for the default action.
pub fn reclaim(signal: i32) {
    if serves() && watched().any(|watched| watched == signal) {
        stand_before(signal);
    }
}

/// Whether it is the address of our handler.
pub fn is_ours(action: usize) -> bool {
    action == handler as *const () as usize
}

/// Whether this process serves a client, and is not a child that user code forked.
pub fn serves() -> bool {
    // SAFETY: no preconditions.
    let process = unsafe { libc::getpid() };
    PIPE.load(Ordering::Acquire) >= 0 && process == PROCESS.load(Ordering::Relaxed)
}

/// Returns the action before.
fn stand_before(signal: i32) -> usize {
    // SAFETY: the actions are zeroed, which is a valid value, then filled in; the handler
    // has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        let mut theirs: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        dispositions::set(signal, &ours, &mut theirs);
        theirs.sa_sigaction
    }
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid arguments; errno is restored; what is called may be
    // called here.
    unsafe {
        let errno = *libc::__errno_location();
        // A child that user code forked is none of our business.
        let ours = serves() && !ENDING.load(Ordering::Acquire);
        let by_others = is_by_others(signal, &*info);
        let on_loop = libc::gettid() == LOOP_THREAD.load(Ordering::Relaxed);
        let sent = (*info).si_code <= 0;
        let lost = on_loop && !sent && FAULTS.contains(&signal);
        if ours && by_others && signal == libc::SIGHUP && IGNORES_HANGUP.load(Ordering::Relaxed) {
            // A terminal or a tunnel has gone.
        } else if !ours || by_others || lost {
            if ours && by_others && !STOPS.contains(&signal) {
                // What follows is wanted.
                ENDING.store(true, Ordering::Release);
            }
            pass_on(signal, info, context);
        } else if signal == libc::SIGXFSZ || STOPS.contains(&signal) {
            // The write fails with an error; the process goes on.
        } else {
            report(0, signal);
            if !on_loop {
                wait();
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// Whether another process sent the signal, or the kernel for a terminal.
fn is_by_others(signal: i32, info: &libc::siginfo_t) -> bool {
    let of_terminals = STOPS.contains(&signal) || [libc::SIGHUP, libc::SIGQUIT].contains(&signal);
    match info.si_code {
        // SAFETY: these carry a process number.
        libc::SI_USER | libc::SI_QUEUE => unsafe { info.si_pid() != libc::getpid() },
        libc::SI_KERNEL => of_terminals,
        _ => false,
    }
}

/// The handler that was there before ours, or what the kernel does by default.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Action = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    // Rust's own handler of faults takes one that was sent for none.
    let before = match FAULTS.contains(&signal) {
        true => libc::SIG_DFL,
        false => BEFORE[signal as usize].load(Ordering::Relaxed),
    };
    // SAFETY: an address that sigaction returned; handlers that take one argument ignore
    // the others.
    unsafe {
        if before > libc::SIG_IGN {
            std::mem::transmute::<usize, Action>(before)(signal, info, context);
        } else if before == libc::SIG_DFL && STOPS.contains(&signal) {
            libc::raise(libc::SIGSTOP);
        } else if before == libc::SIG_DFL {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            dispositions::set(signal, &default, std::ptr::null_mut());
            // Blocked until this handler returns.
            libc::raise(signal);
        }
    }
}

unsafe fn report(kind: i32, code: i32) {
    let mut message = [0u8; 8];
    message[..4].copy_from_slice(&kind.to_ne_bytes());
    message[4..].copy_from_slice(&code.to_ne_bytes());
    // SAFETY: the buffer is as long as it says.
    unsafe {
        libc::write(
            PIPE.load(Ordering::Acquire),
            message.as_ptr().cast(),
            message.len(),
        )
    };
}

/// This thread has come to its end; the event loop does the rest.
unsafe fn wait() -> ! {
    loop {
        // SAFETY: no preconditions.
        unsafe { libc::pause() };
    }
}

/// Called where the process is about to exit: does not return if that is to be prevented.
pub fn prevent_exit(status: i32) {
    if prevents_exit() {
        // SAFETY: both may be called on any thread.
        unsafe {
            report(1, status);
            wait()
        }
    }
}

/// Whether an end of the process that begins here is to be prevented.
pub fn prevents_exit() -> bool {
    // SAFETY: no preconditions.
    let thread = unsafe { libc::gettid() };
    serves() && !ENDING.load(Ordering::Acquire) && thread != LOOP_THREAD.load(Ordering::Relaxed)
}
