//! The room below a thread's stack.

#![allow(unsafe_code, reason = "changes the protection of memory")]

use std::mem::MaybeUninit;
use std::{io, ptr};

/// What the kernel keeps free below the stack of a process, too: code that takes this much
/// at once, as C does, must meet what nobody may touch before it meets another thread's.
pub const GUARD: usize = 1 << 20;

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
