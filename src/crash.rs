//! What user code can do to end this process, and does not: fatal signals, C's `exit` and
//! `_exit`.
//!
//! The thread on which it happens stays where it is, and the event loop is told, which
//! hands everything on to a fresh image of the program (`src/reexec.rs`). The handlers here
//! call nothing but getpid, gettid, write, sigaction, raise, pause and the handlers that
//! they stand before.

#![allow(unsafe_code, reason = "signal handlers, and functions of C")]

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::evaluator::Stop;

/// How the process would have ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Signal(i32),
    Exit(i32),
    /// An evaluation that nothing stops; why it was to stop.
    Stuck(Stop),
}

/// Faults of the code that runs: the thread cannot go on.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// Signals whose default is to end the process, and those that end the server when they
/// come from others.
const REQUESTS: [i32; 13] = [
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGPOLL,
    libc::SIGXCPU,
    libc::SIGSTKFLT,
    libc::SIGPWR,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGXFSZ,
];

static PIPE: AtomicI32 = AtomicI32::new(-1);
static PROCESS: AtomicI32 = AtomicI32::new(0);
static LOOP_THREAD: AtomicI32 = AtomicI32::new(0);
/// The process number of a worker.
static WORKER: AtomicI32 = AtomicI32::new(-1);
static ENDING: AtomicBool = AtomicBool::new(false);
/// The handlers that ours stand before, by number; 0 and 1 are the default and none.
static BEFORE: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// Installs the handlers; the ends that come arrive at `ends`. To be called once, on the
/// thread of the event loop, behind everything else that installs handlers.
pub fn watch(ends: mpsc::UnboundedSender<End>) -> io::Result<()> {
    let (read, write) = StdStream::pair()?;
    read.set_nonblocking(true)?;
    let mut read = UnixStream::from_std(read)?;
    // SAFETY: no preconditions; the handler has the signature that on_exit asks for.
    unsafe {
        PROCESS.store(libc::getpid(), Ordering::Relaxed);
        LOOP_THREAD.store(libc::gettid(), Ordering::Relaxed);
        on_exit(exiting, std::ptr::null_mut());
    }
    PIPE.store(write.as_raw_fd(), Ordering::Release);
    let _ = write.into_raw_fd();
    for signal in FAULTS.into_iter().chain(REQUESTS) {
        stand_before(signal);
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
        for signal in FAULTS.into_iter().chain(REQUESTS) {
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
            libc::sigaction(signal, &default, std::ptr::null_mut());
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
    // SAFETY: no preconditions.
    prevents_exit() || WORKER.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

/// The process is about to end because we want it to.
pub fn ending() {
    ENDING.store(true, Ordering::Release);
}

/// Whether user code may not have `signal` for itself.
pub fn owns(signal: i32) -> bool {
    PIPE.load(Ordering::Acquire) >= 0
        && (FAULTS.contains(&signal)
            || [libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ].contains(&signal))
}

/// Puts our handler in place again, after user code asked for the default action.
pub fn reclaim(signal: i32) {
    if PIPE.load(Ordering::Acquire) >= 0 && REQUESTS.contains(&signal) {
        stand_before(signal);
    }
}

fn stand_before(signal: i32) {
    // SAFETY: the actions are zeroed, which is a valid value, then filled in; the handler
    // has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        let mut theirs: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &ours, &mut theirs);
        if theirs.sa_sigaction != ours.sa_sigaction {
            BEFORE[signal as usize].store(theirs.sa_sigaction, Ordering::Relaxed);
        }
    }
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid arguments; errno is restored; what is called may be
    // called here.
    unsafe {
        let errno = *libc::__errno_location();
        let process = libc::getpid();
        // A child that user code forked is none of our business.
        let ours = process == PROCESS.load(Ordering::Relaxed) && !ENDING.load(Ordering::Acquire);
        let code = (*info).si_code;
        let sent = code <= 0;
        let by_others =
            (code == libc::SI_USER || code == libc::SI_QUEUE) && (*info).si_pid() != process;
        let on_loop = libc::gettid() == LOOP_THREAD.load(Ordering::Relaxed);
        let fault = FAULTS.contains(&signal);
        if !ours || by_others || (fault && on_loop && !sent) {
            if ours && by_others {
                // What follows is wanted.
                ENDING.store(true, Ordering::Release);
            }
            pass_on(signal, info, context);
        } else if signal == libc::SIGXFSZ {
            // The write fails with an error.
        } else {
            report(0, signal);
            if !on_loop {
                wait();
            }
        }
        *libc::__errno_location() = errno;
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
        } else if before == libc::SIG_DFL {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, std::ptr::null_mut());
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

/// Whether an end of the process that begins here is to be prevented.
pub fn prevents_exit() -> bool {
    // SAFETY: no preconditions.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    PIPE.load(Ordering::Acquire) >= 0
        && !ENDING.load(Ordering::Acquire)
        && process == PROCESS.load(Ordering::Relaxed)
        && thread != LOOP_THREAD.load(Ordering::Relaxed)
}

unsafe extern "C" {
    // stdlib.h of the GNU C library.
    fn on_exit(
        function: extern "C" fn(libc::c_int, *mut libc::c_void),
        argument: *mut libc::c_void,
    ) -> libc::c_int;
}

/// C's `exit`, called by a stub.
extern "C" fn exiting(status: libc::c_int, _argument: *mut libc::c_void) {
    if prevents_exit() {
        // SAFETY: both may be called on any thread.
        unsafe {
            report(1, status);
            wait()
        }
    }
}

/// C's `_exit`, for `Unix._exit` and stubs. (The C library's own calls do not come here.)
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: libc::c_int) -> ! {
    // SAFETY: as above; the system call does not return.
    unsafe {
        if prevents_exit() {
            report(1, status);
            wait()
        }
        libc::syscall(libc::SYS_exit_group, status);
        wait()
    }
}

/// The name of a signal, as in `SIGSEGV`.
pub fn name(signal: i32) -> String {
    let named = signal_hook::low_level::signal_name(signal);
    named.map_or_else(|| format!("signal {signal}"), str::to_string)
}

impl fmt::Display for End {
    /// What would have ended the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Signal(signal) => {
                write!(f, "the evaluation crashed the process ({})", name(*signal))
            }
            End::Exit(status) => write!(f, "the evaluation ended the process with status {status}"),
            End::Stuck(stop) => write!(f, "{stop}, and nothing could interrupt it"),
        }
    }
}
