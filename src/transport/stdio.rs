//! Newline-delimited JSON on the private copies of stdin and stdout.
//!
//! A thread reads and a thread writes, with blocking calls: that works for pipes,
//! sockets, terminals and files alike, and leaves the flags of descriptors that are
//! shared with other processes alone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{BadLine, Connection, Message, Output, READ_AHEAD, parse};

/// The longest line that is taken for a message.
const MAX_LINE: usize = 256 << 20;

/// Serves the client on `input` and `output`, which the connection owns from here on.
pub fn stdio(input: OwnedFd, output: OwnedFd) -> io::Result<Connection> {
    let (messages, incoming) = mpsc::channel(READ_AHEAD);
    let (outgoing, lines) = mpsc::unbounded_channel();
    let gone = CancellationToken::new();
    let watched = output.try_clone()?;
    let reader_gone = gone.clone();
    thread::Builder::new().name("reader".into()).spawn(move || {
        read(BufReader::with_capacity(1 << 16, File::from(input)), messages);
        wait_for_hangup(&watched);
        reader_gone.cancel();
    })?;
    let writer_gone = gone.clone();
    thread::Builder::new().name("writer".into()).spawn(move || {
        if let Err(error) = write(File::from(output), lines) {
            log::info!("the client no longer reads: {error}");
        }
        writer_gone.cancel();
    })?;
    Ok(Connection { incoming, outgoing, gone })
}

fn read(mut input: impl BufRead, messages: mpsc::Sender<Message>) {
    loop {
        let message = match next_line(&mut input) {
            Ok(None) => return,
            Ok(Some(Ok(line))) => match parse(&line) {
                Some(message) => message,
                None => continue,
            },
            Ok(Some(Err(bad))) => Err(bad),
            Err(error) => return log::info!("reading from the client: {error}"),
        };
        if messages.blocking_send(message).is_err() {
            return;
        }
    }
}

/// The next line; the last one may lack its line break.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, BadLine>>> {
    let mut line = Vec::new();
    if io::Read::take(&mut *input, MAX_LINE as u64).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() < MAX_LINE || line.ends_with(b"\n") {
        return Ok(Some(Ok(line)));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Err(BadLine::TooLong(MAX_LINE))))
}

fn write(mut output: File, mut lines: mpsc::UnboundedReceiver<Output>) -> io::Result<()> {
    while let Some(next) = lines.blocking_recv() {
        match next {
            Output::Line(mut line) => {
                line.push('\n');
                output.write_all(line.as_bytes())?;
            }
            Output::Flush(done) => drop(done.send(())),
        }
    }
    Ok(())
}

/// After the client's last word: returns when it can no longer hear ours either.
fn wait_for_hangup(output: &OwnedFd) {
    let mut descriptors = [PollFd::new(output, PollFlags::empty())];
    loop {
        match poll(&mut descriptors, None) {
            Ok(_) => return,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return log::warn!("watching the client: {error}"),
        }
    }
}
