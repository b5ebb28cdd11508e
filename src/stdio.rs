//! The process's standard descriptors: the protocol gets private ones, user code gets
//! captured and empty ones.
//!
//! Runs first, before any thread and before the OCaml runtime, so that nothing that user
//! code, a C stub or a child process writes or reads can meet the wire.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;

use crate::capture::Capture;
use crate::descriptors;

/// The first private descriptor: above those that programs number by hand.
const PRIVATE: i32 = 100;

/// What the protocol owns of the original descriptors. Children do not inherit them.
pub struct Private {
    pub input: OwnedFd,
    pub output: OwnedFd,
    pub log: File,
}

/// Nothing behind fd 0, and a capture behind 1 and 2.
pub fn capture() -> io::Result<Capture> {
    no_stdin()?;
    Capture::start()
}

/// Puts behind fd 0 what user code reads: nothing.
pub fn no_stdin() -> io::Result<()> {
    // If fd 0 is closed, the file has its number at first, and loses it again.
    let null = fcntl_dupfd_cloexec(null()?, PRIVATE)?;
    Ok(rustix::stdio::dup2_stdin(&null)?)
}

fn null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

/// A copy of a descriptor with a private number, which user code cannot close.
pub fn private(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
    let copy = fcntl_dupfd_cloexec(descriptor, PRIVATE)?;
    descriptors::protect(&copy);
    Ok(copy)
}

/// Of a worker: the socket that its parent put behind fd 0, where `/dev/null` is from now
/// on, and the files that it put behind 1 and 2.
pub fn take_from_parent() -> io::Result<(OwnedFd, Capture)> {
    let [socket, stdout, stderr] = [
        private(&io::stdin())?,
        private(&io::stdout())?,
        private(&io::stderr())?,
    ];
    no_stdin()?;
    Ok((socket, Capture::of(stdout.into(), stderr.into())?))
}

/// Moves fds 0, 1 and 2 to private numbers, puts `/dev/null` behind 0 and the returned
/// capture behind 1 and 2. Call once.
pub fn take() -> io::Result<(Private, Capture)> {
    let null = null()?;
    let private = |fd: io::Result<OwnedFd>| match fd {
        Ok(fd) => Ok(fd),
        // A descriptor that was closed when we started: reads end, writes vanish.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            fcntl_dupfd_cloexec(&null, PRIVATE).map_err(io::Error::from)
        }
        Err(error) => Err(error),
    };
    let duplicate =
        |fd: &dyn AsFd| fcntl_dupfd_cloexec(fd.as_fd(), PRIVATE).map_err(io::Error::from);
    let input = private(duplicate(&io::stdin()))?;
    let output = private(duplicate(&io::stdout()))?;
    let log = File::from(private(duplicate(&io::stderr()))?);
    rustix::stdio::dup2_stdin(&null)?;
    let capture = Capture::start()?;
    Ok((Private { input, output, log }, capture))
}
