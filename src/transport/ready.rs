//! The one call into tokio that asks for a promise.

#![allow(unsafe_code, reason = "tokio wants a promise about the descriptor")]

use std::fs::File;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a file for input; `None` if it cannot be watched, as regular files cannot.
pub fn watch(file: File) -> Option<AsyncFd<File>> {
    // SAFETY: a `File` owns its descriptor, which stays open and the same for as long as
    // the `AsyncFd` owns the file.
    unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) }.ok()
}
