//! SIGINT as the interrupt of the eval thread.
//!
//! [`Interrupt`] knows whether an evaluation runs and signals only then. The signal
//! handler calls nothing but the handler that OCaml installed (which sets a flag) for
//! our own signals, and `write` on a pipe for those of others.

#![allow(unsafe_code, reason = "signals, and what runs in their handler")]

use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Who to signal. Shared by the eval thread and those who interrupt it.
#[derive(Default)]
pub struct Interrupt {
    /// The eval thread, while it runs user code.
    running: Mutex<Option<Target>>,
}

struct Target {
    thread: libc::pthread_t,
    signalled: bool,
}

impl Interrupt {
    /// The calling thread begins an evaluation.
    pub fn begin(&self) {
        // SAFETY: no preconditions.
        let thread = unsafe { libc::pthread_self() };
        *self.lock() = Some(Target {
            thread,
            signalled: false,
        });
    }

    /// The evaluation is over: no signal is sent from here on. Says whether one was.
    pub fn end(&self) -> bool {
        let signalled = self.lock().take().is_some_and(|target| target.signalled);
        if signalled {
            // A signal sent a moment ago is delivered when a system call returns, and
            // so before the next evaluation begins.
            std::thread::yield_now();
        }
        signalled
    }

    /// Sends SIGINT to the eval thread. False, and nothing done, if no evaluation runs.
    pub fn send(&self) -> bool {
        let mut running = self.lock();
        let Some(target) = running.as_mut() else {
            return false;
        };
        target.signalled = true;
        // SAFETY: the thread is in an evaluation that cannot end while the lock is held.
        unsafe { libc::pthread_kill(target.thread, libc::SIGINT) == 0 }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Target>> {
        self.running
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The handler that OCaml installed, as an address; 0 before that.
static OCAML_HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Where a SIGINT that is not ours is reported; -1 before that.
static SHUTDOWN_PIPE: AtomicI32 = AtomicI32::new(-1);

/// Names the pipe that learns of a SIGINT from outside (a terminal, a supervisor).
/// The descriptor must stay open for the life of the process.
pub fn report_foreign_to(pipe: RawFd) {
    SHUTDOWN_PIPE.store(pipe, Ordering::Relaxed);
}

/// Puts our handler before the one that OCaml has just installed for SIGINT.
pub fn install() {
    // SAFETY: the action is zeroed, which is a valid value, then filled in; the handler
    // has the signature that SA_SIGINFO asks for. OCaml installed a plain handler
    // (runtime/signals.c), so its address is that of a function of one int.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        let mut theirs: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGINT, std::ptr::null(), &mut theirs);
        if theirs.sa_sigaction == ours.sa_sigaction {
            return;
        }
        OCAML_HANDLER.store(theirs.sa_sigaction, Ordering::Relaxed);
        libc::sigaction(libc::SIGINT, &ours, std::ptr::null_mut());
    }
}

extern "C" fn handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo; errno is restored for the code that was
    // interrupted; getpid, write and OCaml's handler are async-signal-safe.
    unsafe {
        let errno = *libc::__errno_location();
        let ours = (*info).si_code == libc::SI_TKILL && (*info).si_pid() == libc::getpid();
        let pipe = SHUTDOWN_PIPE.load(Ordering::Relaxed);
        if ours || pipe < 0 {
            let address = OCAML_HANDLER.load(Ordering::Relaxed);
            if address > libc::SIG_IGN {
                let ocaml: extern "C" fn(libc::c_int) = std::mem::transmute(address);
                ocaml(signal);
            }
        } else {
            libc::write(pipe, b"i".as_ptr().cast(), 1);
        }
        *libc::__errno_location() = errno;
    }
}
