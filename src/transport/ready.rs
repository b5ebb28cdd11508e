//! Waiting for a descriptor.

#![allow(unsafe_code, reason = "tokio wants a promise about the descriptor")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits;

/// Watches a file for input; `None` if it cannot be watched, as regular files cannot.
pub fn watch(file: File) -> Option<AsyncFd<File>> {
    register(file, Interest::READABLE)
}

/// Completes when nobody can read any more what is written to `file`; never if that cannot be
/// known.
pub async fn hung_up(file: File) {
    // The end of a pipe is an error, that of a socket comes with any interest.
    let ends = Interest::PRIORITY | Interest::ERROR;
    let Some(file) = register(file, ends) else {
        return std::future::pending().await;
    };
    while let Ok(mut ready) = file.ready(ends).await {
        match poll(&file, PollFlags::empty(), Some(Duration::ZERO)) {
            Ok(wrong) if wrong.is_empty() => ready.clear_ready(),
            _ => return,
        }
        // A socket whose other side sends no more counts as ready from then on.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(250);

fn register(file: File, interest: Interest) -> Option<AsyncFd<File>> {
    // SAFETY: a `File` owns its descriptor, which stays open and the same for as long as
    // the `AsyncFd` owns the file.
    unsafe { AsyncFd::register_with_interest(file, interest) }.ok()
}

/// What of `events` a descriptor is ready for, or what is wrong with it, after at most `limit`
/// (`None`: as long as it takes). Nothing if a signal came.
pub fn poll(
    descriptor: &impl AsFd,
    events: PollFlags,
    limit: Option<Duration>,
) -> io::Result<PollFlags> {
    let mut descriptors = [PollFd::new(descriptor, events)];
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let mut ready = || rustix::event::poll(&mut descriptors, limit.as_ref());
    let polled = match ready() {
        // User code has set its limit of open files to none.
        Err(Errno::INVAL) if limits::leave_room() => ready(),
        polled => polled,
    };
    match polled {
        Ok(_) => Ok(descriptors[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}
