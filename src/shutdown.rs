//! The signals that end the server: SIGTERM, SIGHUP, and a SIGINT from outside.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGPIPE, SIGTERM, SIGXFSZ};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::signals::STOPS;
use crate::{crash, interrupt};

/// Cancels the returned token at the first signal. A second one ends the process at once.
/// With `outlives_terminal` SIGHUP is none of them. To be called inside the tokio runtime.
pub fn on_signal(outlives_terminal: bool) -> io::Result<CancellationToken> {
    let (read, write) = StdStream::pair()?;
    let seen = Arc::new(AtomicBool::new(false));
    let signals: &[i32] = match outlives_terminal {
        true => &[SIGTERM],
        false => &[SIGTERM, SIGHUP],
    };
    if outlives_terminal {
        crash::ignore_hangup();
    }
    for &signal in signals {
        // The order matters: the first signal sets the flag that the second one finds.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&seen))?;
        signal_hook::flag::register(signal, Arc::clone(&seen))?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    writes_fail()?;
    // SIGINT is the interrupt of the eval thread; those from outside are passed on.
    interrupt::report_foreign_to(write.as_raw_fd());
    let _ = write.into_raw_fd();

    read.set_nonblocking(true)?;
    let mut read = UnixStream::from_std(read)?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    tokio::spawn(async move {
        let _ = read.read(&mut [0]).await;
        token.cancel();
    });
    Ok(shutdown)
}

/// In a worker: nobody is there who would let it go on if it stopped itself.
pub fn stops_do_nothing() -> io::Result<()> {
    for signal in STOPS {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Writes fail with an error; by default these signals end the process. Rust ignores
/// SIGPIPE, but user code's children would inherit that; a handler they do not.
pub fn writes_fail() -> io::Result<()> {
    for signal in [SIGPIPE, SIGXFSZ] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}
