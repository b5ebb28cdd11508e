//! What user code may change of signals: not those that keep the process alive and
//! interruptible.
//!
//! C's functions for actions and masks are defined here, as in `src/descriptors.rs`. User
//! code that sets the default action of a signal gets what that means here (`src/crash.rs`);
//! it never blocks the signals that are ours, or hears of it.

#![allow(unsafe_code, reason = "functions of C")]

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, sigaction as Action, sigset_t};

use crate::{crash, signals, user_code};

unsafe extern "C" {
    // The C library's other name for it.
    fn __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int;
}

/// Sets an action, whoever asks.
///
/// # Safety
///
/// As for the C library's `sigaction`.
pub unsafe fn set(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller's.
    unsafe { __sigaction(signal, new, old) }
}

/// C's `sigaction`.
///
/// # Safety
///
/// As for the C library's, here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller's pointers are null or valid.
    unsafe {
        let refused =
            user_code::runs_here() && !new.is_null() && crash::refuses(signal, (*new).sa_sigaction);
        if !refused {
            return __sigaction(signal, new, old);
        }
        let result = __sigaction(signal, std::ptr::null(), old);
        if result == 0 && !old.is_null() && crash::is_ours((*old).sa_sigaction) {
            (*old).sa_sigaction = libc::SIG_DFL;
            (*old).sa_flags &= !libc::SA_SIGINFO;
        }
        if result == 0 {
            crash::reclaim(signal);
        }
        result
    }
}

/// This process is about to become another image of itself, or has failed to.
///
/// `Command::exec` gives SIGPIPE its default action first, as a program expects that it
/// starts. Until the kernel has ended the other threads one of them may write to a client that
/// has gone, and that would end the process.
pub fn become_another(now: bool) {
    BECOMES_ANOTHER.store(now, Ordering::Relaxed);
}

static BECOMES_ANOTHER: AtomicBool = AtomicBool::new(false);

/// C's `signal`.
///
/// # Safety
///
/// As for `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if signal == libc::SIGPIPE && BECOMES_ANOTHER.load(Ordering::Relaxed) {
        return libc::SIG_DFL;
    }
    // SAFETY: zeroed actions are valid values.
    unsafe {
        let mut new: Action = std::mem::zeroed();
        let mut old: Action = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&mut new.sa_mask, signal);
        match sigaction(signal, &new, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// C's `pthread_sigmask`.
///
/// # Safety
///
/// As for `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's pointers are null or valid; the kernel's sets have 8 bytes.
    unsafe {
        let wanted = new.as_ref().map(|set| allowed(how, *set));
        let wanted = wanted.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        match libc::syscall(libc::SYS_rt_sigprocmask, how, wanted, old, 8_usize) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}

/// The signals of a set that the calling thread may block.
unsafe fn allowed(how: c_int, mut set: sigset_t) -> sigset_t {
    if how == libc::SIG_UNBLOCK {
        return set;
    }
    if user_code::runs_here() && (crash::serves() || crash::is_worker()) {
        for signal in signals::unblockable() {
            // SAFETY: the set is valid.
            unsafe { libc::sigdelset(&mut set, signal) };
        }
    }
    let word = std::ptr::from_mut(&mut set).cast::<u64>();
    // The C library's own two signals, 32 and 33, are never blocked.
    // SAFETY: the set begins with a bit for each of the first 64 signals.
    unsafe { *word &= !(0b11 << 31) };
    set
}

/// C's `sigprocmask`.
///
/// # Safety
///
/// As for `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match pthread_sigmask(how, new, old) {
            0 => 0,
            error => {
                *libc::__errno_location() = error;
                -1
            }
        }
    }
}
