//! Newline-delimited JSON on the private copies of stdin and stdout.
//!
//! The descriptors may be shared with other processes, so their flags stay as they are:
//! reads and writes are blocking ones, made when they will not block.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::process::getppid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::lines::Message;
use super::outgoing::{Outgoing, Queue};
use super::{Connection, READ_AHEAD, Unread, ready};
use crate::mutex::lock;
use crate::{stdio, user_code};

/// Serves the client on `input` and `output`, which the connection owns from here on.
/// `before` was read from `input` already, and `unsent` is to be written first. To be called
/// inside the tokio runtime.
pub fn stdio(
    input: OwnedFd,
    output: OwnedFd,
    before: &[u8],
    unsent: &[u8],
) -> io::Result<Connection> {
    let (messages, incoming) = mpsc::channel(READ_AHEAD);
    let gone = CancellationToken::new();
    let unread = Unread::default();
    lock(&unread).push(before);
    let reader = Reader {
        unread: Arc::clone(&unread),
        messages,
    };
    let over = read_on(input, reader)?;
    watch_hangup(File::from(stdio::private(&output)?), over, gone.clone());
    let outgoing = write_on(output, unsent, gone.clone())?;
    Ok(Connection {
        incoming,
        outgoing,
        gone,
        unread,
        calls_outlive_it: false,
        rivals: None,
    })
}

/// Turns what was read into messages.
struct Reader {
    unread: Unread,
    messages: mpsc::Sender<Message>,
}

/// Reads in a task if the descriptor can be waited for, else (a regular file) in a thread.
/// The returned receiver is told when that is over.
fn read_on(input: OwnedFd, reader: Reader) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let (over, is_over) = oneshot::channel();
    let input = File::from(input);
    let copy = File::from(stdio::private(&input)?);
    match ready::watch(input) {
        Some(input) => {
            tokio::spawn(async move { over.send(read_ready(input, reader).await) });
        }
        None => {
            let read = move || {
                user_code::none_here();
                let _ = over.send(read_blocking(copy, reader));
            };
            thread::Builder::new().name("reader".into()).spawn(read)?;
        }
    }
    Ok(is_over)
}

async fn read_ready(input: AsyncFd<File>, reader: Reader) -> io::Result<()> {
    let mut chunk = vec![0; 1 << 16];
    loop {
        if reader.pass_on().await.is_none() {
            return Ok(());
        }
        let length = input
            .async_io(Interest::READABLE, |mut file| {
                if !is_readable(file)? {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                read(&mut file, &mut chunk)
            })
            .await?;
        if length == 0 {
            reader.finish().await;
            return Ok(());
        }
        lock(&reader.unread).push(&chunk[..length]);
    }
}

fn read_blocking(mut input: File, reader: Reader) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut chunk = vec![0; 1 << 16];
    loop {
        if runtime.block_on(reader.pass_on()).is_none() {
            return Ok(());
        }
        // A regular file, which never lets us wait: nobody else finds bytes under way.
        let mut unread = lock(&reader.unread);
        let length = read(&mut input, &mut chunk)?;
        unread.push(&chunk[..length]);
        drop(unread);
        if length == 0 {
            runtime.block_on(reader.finish());
            return Ok(());
        }
    }
}

impl Reader {
    /// Sends on what is complete. No message is ever outside both `unread` and the channel.
    /// `None` when nobody takes messages any more.
    async fn pass_on(&self) -> Option<()> {
        loop {
            let place = self.messages.reserve().await.ok()?;
            match lock(&self.unread).next_message() {
                Some(message) => place.send(message),
                None => return Some(()),
            }
        }
    }

    /// The input has ended: a last line may lack its line break.
    async fn finish(&self) {
        if let Ok(place) = self.messages.reserve().await {
            let last = lock(&self.unread).finish();
            if let Some(message) = last {
                place.send(message);
            }
        }
    }
}

/// A process that was stopped and goes on may find its calls interrupted.
fn read(mut file: impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn is_readable(file: &File) -> io::Result<bool> {
    let ready = ready::poll(file, PollFlags::IN, Some(Duration::ZERO))?;
    Ok(!ready.is_empty())
}

fn write_on(output: OwnedFd, unsent: &[u8], gone: CancellationToken) -> io::Result<Outgoing> {
    let queue = Arc::new(Queue::of(unsent));
    let file = Arc::new(File::from(output));
    let outgoing = Outgoing::new(Arc::clone(&queue), Some(Arc::clone(&file)));
    thread::Builder::new()
        .name("writer".into())
        .spawn(move || {
            user_code::none_here();
            if let Err(error) = queue.write(&file) {
                log::info!("the client no longer reads: {error}");
                queue.close();
                gone.cancel();
            }
        })?;
    Ok(outgoing)
}

/// Waits until the client cannot hear us: it has closed its end, or, after its last word, our
/// parent has died and nobody is left who could want an answer.
fn watch_hangup(output: File, over: oneshot::Receiver<io::Result<()>>, gone: CancellationToken) {
    let parent = getppid();
    let alone = async move {
        if let Ok(Err(error)) = over.await {
            log::info!("reading from the client: {error}");
        }
        while getppid() == parent {
            tokio::time::sleep(LOOK_AT_PARENT).await;
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = ready::hung_up(output) => {}
            _ = alone => {}
        }
        gone.cancel();
    });
}

const LOOK_AT_PARENT: Duration = Duration::from_millis(250);
