//! The stacks of a thread that runs user code: what is below the one it has, and the one for
//! signals. Without the latter a handler would run where OCaml code runs, which has no room
//! to spare, and not at all after a stack overflow.

#![allow(unsafe_code, reason = "changes the protection of memory")]

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::{io, ptr};

/// What the kernel keeps free below the stack of a process, too: code that takes this much
/// at once, as C does, must meet what nobody may touch before it meets another thread's.
pub const GUARD: usize = 1 << 20;

/// For signal handlers: ours, OCaml's, and those of libraries.
const SIGNALS: usize = 64 << 10;

/// Nobody may touch the last [`GUARD`] bytes of the calling thread's stack from here on.
pub fn widen_guard() -> io::Result<()> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut bottom, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the attributes are filled in before they are read, and destroyed once. The
    // thread is far above the bytes whose protection changes.
    unsafe {
        let attributes = attributes.as_mut_ptr();
        if libc::pthread_getattr_np(libc::pthread_self(), attributes) != 0 {
            return Err(io::Error::other("the thread's stack is unknown"));
        }
        libc::pthread_attr_getstack(attributes, &mut bottom, &mut size);
        libc::pthread_attr_destroy(attributes);
        if size < 4 * GUARD || libc::mprotect(bottom, GUARD, libc::PROT_NONE) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Gives the calling thread its stack for signals, again if something took it away: OCaml's
/// runtime does when it has started. To be called on the toplevel's thread alone.
pub fn separate_signals() {
    static STACK: OnceLock<usize> = OnceLock::new();
    let bottom = *STACK.get_or_init(|| {
        // As many pages as it needs, never given back: a handler may run at any time.
        Box::leak(Box::<[u8]>::new_uninit_slice(SIGNALS))
            .as_mut_ptr()
            .expose_provenance()
    });
    // SAFETY: the memory is as long as it says and lives for ever; the zeroed value is valid.
    unsafe {
        let mut now: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut now);
        if now.ss_flags & libc::SS_DISABLE != 0 || now.ss_sp.is_null() {
            let ours = libc::stack_t {
                ss_sp: ptr::with_exposed_provenance_mut(bottom),
                ss_flags: 0,
                ss_size: SIGNALS,
            };
            libc::sigaltstack(&ours, ptr::null_mut());
        }
    }
}
