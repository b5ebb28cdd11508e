//! Debugging information for the bytecode that is linked into the executable.
//!
//! The runtime looks for it in the file that `CAML_DEBUG_FILE` names, when it prints its
//! first backtrace. Here that file is in memory; `ocaml/debug_info` made its contents.

#![allow(unsafe_code, reason = "the environment of the process")]

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::descriptors;

static STDLIB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stdlib.cds"));

const VARIABLE: &str = "CAML_DEBUG_FILE";

/// Runs `boot` with the variable naming the file, unless the user has named one. The
/// variable is gone afterwards: children are not to inherit it.
pub fn offered<T>(boot: impl FnOnce() -> T) -> T {
    if env::var_os(VARIABLE).is_some() {
        return boot();
    }
    match file() {
        // SAFETY: Rust's own accesses to the environment exclude each other, and no other
        // thread of topup runs C code that reads it while the runtime boots.
        Ok(path) => unsafe { env::set_var(VARIABLE, path) },
        Err(error) => log::warn!("backtraces will lack the standard library: {error}"),
    }
    let result = boot();
    // SAFETY: as above.
    unsafe { env::remove_var(VARIABLE) };
    result
}

/// The path of the file, which stays open for the life of the process.
fn file() -> io::Result<String> {
    let mut file = File::from(memfd_create("stdlib.cds", MemfdFlags::CLOEXEC)?);
    file.write_all(STDLIB)?;
    let file = rustix::io::fcntl_dupfd_cloexec(&file, 100)?;
    descriptors::protect(&file);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let _ = file.into_raw_fd();
    Ok(path)
}
