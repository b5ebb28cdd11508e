//! SIGINT as the interrupt of the eval thread.
//!
//! [`Interrupt`] knows whether an evaluation runs and signals only then. The signal
//! handler calls nothing but the handler that OCaml installed (which sets a flag) for
//! our own signals, and `write` on a pipe, or `_exit`, for those of others.

#![allow(unsafe_code, reason = "signals, and what runs in their handler")]

use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use ocaml::sys::Value;

use crate::cpu::ThreadId;
use crate::mutex::lock;
use crate::{crash, dispositions};

/// Who to signal. Shared by the eval thread and those who interrupt it.
#[derive(Default)]
pub struct Interrupt {
    /// The eval thread, while it runs user code.
    running: Mutex<Option<Target>>,
}

struct Target {
    thread: libc::pthread_t,
    id: ThreadId,
    signalled: bool,
}

impl Interrupt {
    /// The calling thread begins an evaluation.
    pub fn begin(&self) {
        // SAFETY: no preconditions.
        let (thread, id) = unsafe {
            let (process, thread) = (libc::getpid(), libc::gettid());
            (libc::pthread_self(), ThreadId { process, thread })
        };
        *lock(&self.running) = Some(Target {
            thread,
            id,
            signalled: false,
        });
    }

    /// The evaluation is over: no signal is sent from here on.
    pub fn end(&self) {
        if lock(&self.running)
            .take()
            .is_some_and(|target| target.signalled)
        {
            // A signal sent a moment ago is delivered when a system call returns, and
            // so before the next evaluation begins.
            std::thread::yield_now();
        }
    }

    /// The thread that evaluates, while it does.
    pub fn thread(&self) -> Option<ThreadId> {
        lock(&self.running).as_ref().map(|target| target.id)
    }

    /// Sends SIGINT to the eval thread. False, and nothing done, if no evaluation runs.
    pub fn send(&self) -> bool {
        let mut running = lock(&self.running);
        let Some(target) = running.as_mut() else {
            return false;
        };
        target.signalled = true;
        // SAFETY: the thread is in an evaluation that cannot end while the lock is held.
        unsafe { libc::pthread_kill(target.thread, libc::SIGINT) == 0 }
    }
}

/// The handler that OCaml installed, as an address; 0 before that.
static OCAML_HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Where a SIGINT that is not ours is reported; -1 before that.
static SHUTDOWN_PIPE: AtomicI32 = AtomicI32::new(-1);

/// Whether one has come; a second one ends the process at once.
static FOREIGN_SEEN: AtomicBool = AtomicBool::new(false);

/// Names the pipe that learns of a SIGINT from outside (a terminal, a supervisor).
/// The descriptor must stay open for the life of the process.
pub fn report_foreign_to(pipe: RawFd) {
    SHUTDOWN_PIPE.store(pipe, Ordering::Relaxed);
}

/// The thread that evaluates, once OCaml has installed its handler; 0 before that.
static EVAL_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Runs `boot`, in which OCaml installs the toplevel's handler for SIGINT, puts ours before
/// it, and makes the calling thread the one that interrupts are for.
pub fn adopt<T>(boot: impl FnOnce() -> T) -> T {
    let result = boot();
    // SAFETY: no preconditions; the action is zeroed, which is a valid value.
    let theirs = unsafe {
        EVAL_THREAD.store(libc::pthread_self() as usize, Ordering::Release);
        let mut theirs: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGINT, std::ptr::null(), &mut theirs);
        theirs
    };
    OCAML_HANDLER.store(theirs.sa_sigaction, Ordering::Relaxed);
    install();
    result
}

/// Puts our handler in place, in case C code has put another there.
pub fn install() {
    // SAFETY: the actions are zeroed, which is a valid value, then filled in; the handler
    // has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        let mut theirs: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        dispositions::set(libc::SIGINT, std::ptr::null(), &mut theirs);
        if theirs.sa_sigaction != ours.sa_sigaction {
            dispositions::set(libc::SIGINT, &ours, std::ptr::null_mut());
        }
    }
}

unsafe extern "C" {
    // The runtime's own primitive, renamed by build.rs.
    fn topup_runtime_install_signal_handler(signal: Value, action: Value) -> Value;
}

/// SIGINT in OCaml's numbering (`Sys.sigint`) and in the system's, as OCaml values.
const SIGINTS: [Value; 2] = [-6 << 1 | 1, (libc::SIGINT as Value) << 1 | 1];

/// The primitive of `Sys.signal` and `Sys.catch_break`. Once the toplevel is up, SIGINT is
/// its own: user code that asks for it is told that it had the default action, and changes
/// nothing. Else one line of it could make evaluations that nothing stops, or end us.
///
/// # Safety
///
/// OCaml calls it with its lock held, a signal number and an action.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn caml_install_signal_handler(signal: Value, action: Value) -> Value {
    if EVAL_THREAD.load(Ordering::Acquire) == 0 {
        // SAFETY: the caller's promise is the one that the original asks for.
        return unsafe { topup_runtime_install_signal_handler(signal, action) };
    }
    // SAFETY: the runtime's own conversion; no OCaml value is looked at.
    let number = unsafe { caml_convert_signal_number((signal >> 1) as libc::c_int) };
    if SIGINTS.contains(&signal) || crash::owns(number) {
        return DEFAULT;
    }
    // SAFETY: as above.
    let before = unsafe { topup_runtime_install_signal_handler(signal, action) };
    if action == DEFAULT {
        crash::reclaim(number);
    }
    before
}

unsafe extern "C" {
    // caml/signals.h: from OCaml's numbering to the system's.
    fn caml_convert_signal_number(signal: libc::c_int) -> libc::c_int;
    // The runtime's own primitive, renamed by build.rs.
    fn topup_runtime_sys_exit(status: Value) -> Value;
    // caml/fail.h; does not return.
    fn caml_raise_with_arg(tag: Value, argument: Value) -> !;
}

/// The primitive of `Stdlib.exit`. In the process that serves, it raises `Ended`, which
/// `ocaml/interrupt.ml` registers: the evaluation is over, not the session.
///
/// # Safety
///
/// OCaml calls it with its lock held and an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn caml_sys_exit(status: Value) -> Value {
    // SAFETY: the named value is an exception that takes an int.
    unsafe {
        let ended = ocaml::sys::caml_named_value(c"topup_ended".as_ptr().cast());
        if crash::keeps_from_exit() && !ended.is_null() {
            caml_raise_with_arg(*ended, status);
        }
        topup_runtime_sys_exit(status)
    }
}

/// `Sys.Signal_default`.
const DEFAULT: Value = 1;

/// The primitive `topup_on_eval_thread : unit -> bool`.
///
/// # Safety
///
/// None: it looks at no OCaml value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_on_eval_thread(_unit: Value) -> Value {
    Value::from(on_eval_thread()) << 1 | 1
}

/// Whether the calling thread is the toplevel's.
pub fn on_eval_thread() -> bool {
    // SAFETY: no preconditions.
    let this = unsafe { libc::pthread_self() } as usize;
    this == EVAL_THREAD.load(Ordering::Acquire)
}

extern "C" fn handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo; errno is restored for the code that was
    // interrupted; getpid, pthread_kill, write, _exit and OCaml's handler are async-signal-safe.
    unsafe {
        let errno = *libc::__errno_location();
        // User code can send it to its own process, where any thread may get it.
        let sent = [libc::SI_TKILL, libc::SI_USER, libc::SI_QUEUE].contains(&(*info).si_code);
        let ours = sent && (*info).si_pid() == libc::getpid();
        let pipe = SHUTDOWN_PIPE.load(Ordering::Relaxed);
        let thread = EVAL_THREAD.load(Ordering::Acquire);
        if ours && thread != 0 && !on_eval_thread() {
            libc::pthread_kill(thread as libc::pthread_t, signal);
        } else if ours || pipe < 0 {
            let address = OCAML_HANDLER.load(Ordering::Relaxed);
            if address > libc::SIG_IGN {
                let ocaml: extern "C" fn(libc::c_int) = std::mem::transmute(address);
                ocaml(signal);
            }
        } else if FOREIGN_SEEN.swap(true, Ordering::Relaxed) {
            libc::_exit(128 + signal);
        } else {
            // What follows is wanted.
            crash::ending();
            libc::write(pipe, b"i".as_ptr().cast(), 1);
        }
        *libc::__errno_location() = errno;
    }
}
