//! A process that goes on in a fresh image of itself: same number, same client, same log.
//!
//! What the next image needs is written into a memory file, whose descriptor number it gets
//! as an argument. Descriptors stay open across `exec`; everything else is new.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::protocol::jsonrpc::Id;
use crate::session::{HostsLeft, SessionsLeft};
use crate::{adopt, dispositions, limits, settings};

/// The name of the argument that names the memory file; not for people.
pub const ARGUMENT: &str = "--go-on-from";

/// What one image hands to the next.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handover {
    /// Where log lines go.
    pub log_lines: RawFd,
    /// The input and output of the client that is being served.
    pub client: Option<[RawFd; 2]>,
    /// The socket that clients connect to, and its absolute path.
    pub listener: Option<(RawFd, PathBuf)>,
    /// Calls that were in flight elsewhere, by id, and what they were told.
    pub calls: Vec<(Id, Vec<Bytes>)>,
    /// When calls came that are among the input that was not answered, by id.
    pub begun: Vec<(Id, f64)>,
    /// Calls of clients that have gone.
    pub unheard: Vec<Unheard>,
    pub sessions: SessionsLeft,
    /// Remote hosts, to be connected to again.
    pub hosts: HostsLeft,
    /// Whether the client is another topup.
    pub is_topup: bool,
    /// The revision that the client's handshake settled.
    pub revision: Option<String>,
    /// What happened, in words for the client.
    pub end: String,
    /// When the process came to its end, in seconds of the machine's clock; the latest last.
    pub ends: Vec<f64>,
    /// Why there is no phrase log, if there is none.
    pub no_log: Option<String>,
    /// Phrases of the log that are not to be run again; they count from 1.
    pub skipped: Vec<usize>,
    /// Lengths of the three byte strings that follow: input that was read and not answered,
    /// output that was not written, the phrase log.
    pub lengths: [u64; 3],
}

/// The calls of a client that has gone, as they came, and what those were told that were in
/// flight elsewhere, by id.
#[derive(Debug, Serialize, Deserialize)]
pub struct Unheard {
    pub lines: Bytes,
    pub calls: Vec<(Id, Vec<Bytes>)>,
}

/// The process as it was when it began, before user code could change it.
#[derive(Clone)]
pub struct Beginning {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
}

impl Beginning {
    /// To be taken first thing.
    pub fn take() -> Beginning {
        let mut environment: Vec<_> = std::env::vars_os().collect();
        for (name, value) in &mut environment {
            settings::make_absolute(name, value);
        }
        Beginning {
            arguments: std::env::args_os().collect(),
            environment,
            directory: std::env::current_dir().ok(),
        }
    }

    /// Becomes the next image. Returns only if that fails.
    pub fn again(&self, handover: &Handover, parts: [&[u8]; 3]) -> io::Error {
        match self.command(handover, parts) {
            Ok(mut command) => {
                dispositions::become_another(true);
                let error = command.exec();
                dispositions::become_another(false);
                error
            }
            Err(error) => error,
        }
    }

    /// This program, to be started with the environment and in the directory of then.
    pub fn program(&self) -> Command {
        let mut command = self.command_of("/proc/self/exe".as_ref());
        if let Some(name) = self.arguments.first() {
            command.arg0(name);
        }
        command
    }

    /// Another program, to be started in the same way.
    pub fn command_of(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().cloned());
        if let Some(directory) = self
            .directory
            .as_ref()
            .filter(|directory| directory.is_dir())
        {
            command.current_dir(directory);
        }
        command
    }

    fn command(&self, handover: &Handover, parts: [&[u8]; 3]) -> io::Result<Command> {
        // First: files may be what user code took away.
        limits::restore();
        let header = serde_json::to_vec(handover)?;
        let mut memory = File::from(memfd_create("topup", MemfdFlags::empty())?);
        memory.write_all(&(header.len() as u64).to_ne_bytes())?;
        memory.write_all(&header)?;
        for part in parts {
            memory.write_all(part)?;
        }
        memory.rewind()?;
        let mut command = self.program();
        let mut given = self.arguments.iter().skip(1);
        while let Some(argument) = given.next() {
            if argument == ARGUMENT {
                given.next();
            } else {
                command.arg(argument);
            }
        }
        command.arg(ARGUMENT).arg(memory.as_raw_fd().to_string());
        // Open until the next image has read it.
        std::mem::forget(memory);
        Ok(command)
    }
}

/// What the last image handed over, and its three byte strings. To be called once.
pub fn receive(memory: RawFd) -> io::Result<(Handover, [Vec<u8>; 3])> {
    let mut memory = adopt::file(memory);
    let mut length = [0; 8];
    memory.read_exact(&mut length)?;
    let mut read = |length: u64| {
        let mut bytes = vec![0; length as usize];
        memory.read_exact(&mut bytes).map(|()| bytes)
    };
    let handover: Handover = serde_json::from_slice(&read(u64::from_ne_bytes(length))?)?;
    let [unread, unsent, log] = handover.lengths;
    let parts = [read(unread)?, read(unsent)?, read(log)?];
    Ok((handover, parts))
}

/// Seconds of a clock that goes on over `exec` and is never set.
pub fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Handover {
    /// How many ends there were in the last minute.
    pub fn recent_ends(&self) -> usize {
        let now = now();
        self.ends.iter().filter(|end| now - **end < 60.0).count()
    }
}

/// The descriptor lives on over `exec` from now on.
pub fn keep_open(descriptor: BorrowedFd<'_>) -> io::Result<RawFd> {
    fcntl_setfd(descriptor, FdFlags::empty())?;
    Ok(descriptor.as_raw_fd())
}

/// What the image before this one has kept open, which ends with this one. To be called once
/// for each number that was handed over.
pub fn take_back(number: RawFd) -> io::Result<File> {
    let file = adopt::file(number);
    fcntl_setfd(&file, FdFlags::CLOEXEC)?;
    Ok(file)
}
