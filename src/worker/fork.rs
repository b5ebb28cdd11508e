//! A copy of this process, with the toplevel in it.

#![allow(unsafe_code, reason = "fork, and what the OCaml runtime does about it")]

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use crate::bridge::Runtime;
use crate::{adopt, descriptors};

/// Who returns from [`fork`].
pub enum Side {
    /// The number of the copy.
    Parent(i32),
    /// The copy, which is nobody's child but its server's.
    Child,
}

/// Copies the process. The runtime's owner calls, with OCaml's lock held; of all threads it
/// alone goes on in the copy. Refused once OCaml code has made a domain.
///
/// The copy is a grandchild whose parent has ended when this returns, so that it belongs to
/// the nearest reaper of orphans: the server, for that long.
pub fn fork(_runtime: &Runtime) -> Result<Side, String> {
    let failed = || io::Error::last_os_error().to_string();
    // SAFETY: the runtime's own functions, looked up by name because OCaml 4 has none of
    // them, as `Unix.fork` calls them; between the two forks nothing is called that could
    // find a lock taken.
    unsafe {
        if function::<extern "C" fn() -> libc::c_int>(c"caml_domain_is_multicore")
            .is_some_and(|is_multicore| is_multicore() != 0)
        {
            return Err("a domain was spawned, and a process with domains cannot be forked".into());
        }
        let mut number = [0; 2];
        if libc::pipe2(number.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(failed());
        }
        let (read, write) = (adopt::file(number[0]), adopt::file(number[1]));
        let forked = descriptors::kept(|| libc::fork());
        match forked {
            -1 => Err(failed()),
            0 => match descriptors::kept(|| libc::fork()) {
                0 => {
                    after();
                    Ok(Side::Child)
                }
                child => {
                    let bytes = child.to_ne_bytes();
                    libc::write(write.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
                    libc::syscall(libc::SYS_exit_group, 0);
                    unreachable!("the process has ended")
                }
            },
            between => {
                let mut status = 0;
                while libc::waitpid(between, &mut status, 0) < 0 {
                    if *libc::__errno_location() != libc::EINTR {
                        return Err(failed());
                    }
                }
                drop(write);
                let mut bytes = [0; 4];
                let told = (&read).read_exact(&mut bytes);
                let copy = i32::from_ne_bytes(bytes);
                match told {
                    Ok(()) if copy > 0 => Ok(Side::Parent(copy)),
                    _ => Err("there is no memory or process number for a copy".into()),
                }
            }
        }
    }
}

/// What `Unix.fork` does in the child.
unsafe fn after() {
    // SAFETY: as above; the second one is a variable that holds a function.
    unsafe {
        if let Some(events) = function::<extern "C" fn()>(c"caml_runtime_events_post_fork") {
            events();
        }
        let hook = libc::dlsym(libc::RTLD_DEFAULT, c"caml_atfork_hook".as_ptr());
        if let Some(hook) = hook
            .cast::<Option<extern "C" fn()>>()
            .as_ref()
            .copied()
            .flatten()
        {
            hook();
        }
    }
}

/// A function of the runtime, of type `F`.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: the caller knows the function's type, which is a pointer.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!address.is_null()).then(|| std::mem::transmute_copy(&address))
    }
}
