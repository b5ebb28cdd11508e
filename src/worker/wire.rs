//! A worker's end of the socket: lines, and descriptors that come with them.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, write};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::stdio;

/// The socket, and what has come over it.
pub struct Wire {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// Bytes of the first line that are known to hold no line break.
    scanned: usize,
    descriptors: VecDeque<OwnedFd>,
}

/// Descriptors that come with one request, at most.
const TOGETHER: usize = 4;

impl Wire {
    pub fn new(socket: OwnedFd) -> Wire {
        Wire {
            socket,
            bytes: Vec::new(),
            scanned: 0,
            descriptors: VecDeque::new(),
        }
    }

    /// Another one for the same socket, to send.
    pub fn writer(&self) -> io::Result<Wire> {
        Ok(Wire::new(stdio::private(&self.socket)?))
    }

    /// The next line, without its break; `None` when the parent has closed its end.
    pub fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let fresh = &self.bytes[self.scanned..];
            if let Some(length) = fresh.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.bytes.drain(..=self.scanned + length).collect();
                line.pop();
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = self.bytes.len();
            match self.read() {
                Ok(0) | Err(Errno::CONNRESET) => return Ok(None),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self) -> rustix::io::Result<usize> {
        let mut chunk = [0; 1 << 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TOGETHER))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut chunk)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = recvmsg(&self.socket, &mut into, &mut ancillary, flags)?.bytes;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                let private = descriptors.flat_map(|fd| stdio::private(&fd));
                self.descriptors.extend(private);
            }
        }
        self.bytes.extend_from_slice(&chunk[..length]);
        Ok(length)
    }

    /// The descriptors that came with the request.
    pub fn descriptors<const N: usize>(&mut self) -> Result<[OwnedFd; N], String> {
        let descriptors: Vec<OwnedFd> = self.descriptors.drain(..).collect();
        let count = descriptors.len();
        descriptors
            .try_into()
            .map_err(|_| format!("{count} descriptors came, not {N}"))
    }

    /// Sends all of `text`.
    pub fn send(&self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match write(&self.socket, rest) {
                Ok(length) => rest = &rest[length..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
