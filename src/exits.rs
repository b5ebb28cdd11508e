//! C's functions that end the process, or the thread of the toplevel, defined anew: called by
//! user code they are an end that costs one reply (`src/crash.rs`).

#![allow(unsafe_code, reason = "functions of C")]

use libc::{c_int, c_void};

use crate::{crash, interrupt};

unsafe extern "C" {
    // stdlib.h of the GNU C library.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Catches C's `exit` from here on.
pub fn watch() {
    // SAFETY: the function has the signature that on_exit asks for.
    unsafe { on_exit(exiting, std::ptr::null_mut()) };
}

extern "C" fn exiting(status: c_int, _argument: *mut c_void) {
    crash::prevent_exit(status);
}

/// C's `_exit`, for `Unix._exit` and stubs. (The C library's own calls do not come here.)
///
/// # Safety
///
/// None, here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    crash::prevent_exit(status);
    loop {
        // SAFETY: no preconditions; it does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// C's other name for it.
///
/// # Safety
///
/// None.
#[allow(non_snake_case, reason = "C's name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: none asked for.
    unsafe { _exit(status) }
}

/// C's `quick_exit`, without what `at_quick_exit` registered where the process goes on.
///
/// # Safety
///
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quick_exit(status: c_int) -> ! {
    crash::prevent_exit(status);
    // SAFETY: the C library's function of this signature; it does not return.
    unsafe {
        if let Some(quick_exit) = next(c"quick_exit") {
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int)>(quick_exit)(status);
        }
        _exit(status)
    }
}

/// C's `pthread_exit`, which `Thread.exit` of OCaml 4 calls, too. Without the thread of the
/// toplevel there would be no answer.
///
/// # Safety
///
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    if interrupt::on_eval_thread() {
        crash::prevent_exit(0);
        if crash::is_worker() {
            // SAFETY: none asked for.
            unsafe { _exit(0) }
        }
    }
    // SAFETY: the C library's function of this signature; it does not return.
    unsafe {
        if let Some(exit) = next(c"pthread_exit") {
            std::mem::transmute::<*mut c_void, extern "C-unwind" fn(*mut c_void)>(exit)(value);
        }
        _exit(0)
    }
}

/// The C library's function that ours stands before.
unsafe fn next(name: &std::ffi::CStr) -> Option<*mut c_void> {
    // SAFETY: the name is null-terminated.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
