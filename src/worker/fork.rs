//! A copy of this process, with the toplevel in it.

#![allow(unsafe_code, reason = "fork, and what the OCaml runtime does about it")]

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bridge::Runtime;
use crate::{descriptors, stdio};

/// Who returns from [`fork`].
pub enum Side {
    Parent(Between),
    /// The copy, which is nobody's child but its server's once they have parted.
    Child,
}

/// The process between this one and its copy. When it goes, which it does when this is
/// dropped, the copy belongs to the nearest reaper of orphans: the server, for that long.
pub struct Between {
    pub copy: i32,
    pid: i32,
    /// It waits at the other end.
    go: OwnedFd,
}

impl Drop for Between {
    fn drop(&mut self) {
        // A child of user code's may hold a copy of the descriptor.
        let _ = rustix::io::write(&self.go, b".");
        let mut status = 0;
        // SAFETY: it is a child of this process that nobody else waits for.
        unsafe {
            while libc::waitpid(self.pid, &mut status, 0) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
        }
    }
}

/// Copies the process. The runtime's owner calls, with OCaml's lock held; of all threads it
/// alone goes on in the copy. Refused once OCaml code has made a domain.
pub fn fork(_runtime: &Runtime) -> Result<Side, String> {
    let failed = || io::Error::last_os_error().to_string();
    // SAFETY: the runtime's own function, looked up by name because OCaml 4 has none.
    let is_multicore = unsafe {
        function::<extern "C" fn() -> libc::c_int>(c"caml_domain_is_multicore")
            .is_some_and(|is_multicore| is_multicore() != 0)
    };
    if is_multicore {
        return Err("a domain was spawned, and a process with domains cannot be forked".into());
    }
    let (told, tell) = pipe().map_err(|error| error.to_string())?;
    let (wait, go) = pipe().map_err(|error| error.to_string())?;
    // SAFETY: as `Unix.fork` forks; in the process between nothing is called that could find
    // a lock taken.
    unsafe {
        match descriptors::kept(|| libc::fork()) {
            -1 => Err(failed()),
            0 => {
                libc::close(go.as_raw_fd());
                match descriptors::kept(|| libc::fork()) {
                    0 => {
                        // They are not this process's to close at the end: one is closed.
                        std::mem::forget(go);
                        after();
                        Ok(Side::Child)
                    }
                    copy => {
                        let bytes = copy.to_ne_bytes();
                        libc::write(tell.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
                        let mut byte = 0u8;
                        while libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) < 0
                            && *libc::__errno_location() == libc::EINTR
                        {}
                        libc::syscall(libc::SYS_exit_group, 0);
                        unreachable!("the process has ended")
                    }
                }
            }
            pid => {
                drop(tell);
                let mut bytes = [0; 4];
                let told = File::from(told).read_exact(&mut bytes);
                let copy = i32::from_ne_bytes(bytes);
                let between = Between { copy, pid, go };
                match told {
                    Ok(()) if copy > 0 => Ok(Side::Parent(between)),
                    _ => Err("there is no memory or process number for a copy".into()),
                }
            }
        }
    }
}

/// Its two ends, for reading and for writing, which user code cannot close.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((stdio::private(&read)?, stdio::private(&write)?))
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
