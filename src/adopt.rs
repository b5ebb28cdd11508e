//! Descriptors that a process has from the image of it before this one.

#![allow(unsafe_code, reason = "a number says nothing of who owns it")]

use std::fs::File;
use std::os::fd::{FromRawFd, RawFd};

/// The file behind `number`, which belongs to the caller from here on. To be called once
/// for each number that was handed over.
pub fn file(number: RawFd) -> File {
    // SAFETY: the image before this one left the descriptor open for this call, and nothing
    // else in this one knows its number.
    unsafe { File::from_raw_fd(number) }
}
