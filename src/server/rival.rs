//! Another client that waits while one is served. Where the one that is served is another
//! topup, its network may have died without a word: then it is asked whether it is there,
//! and has to say something soon.

use std::fs::File;
use std::future::pending;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::transport::ready;

/// Who waits at a socket.
pub struct Rivals(AsyncFd<File>);

/// What to do about the client that is served.
#[derive(Debug, PartialEq)]
pub enum Suspicion {
    /// To ask whether it is there.
    Ask,
    /// It is not.
    Gone,
}

/// Watches over one client.
pub struct Watch {
    rivals: Option<Rivals>,
    asked: bool,
    /// How much had arrived of its next message when it was asked.
    arrived: usize,
    until: Option<Instant>,
}

/// What a client has to answer by.
const PATIENCE: Duration = Duration::from_secs(5);

impl Rivals {
    /// Of the listening socket `listener`. To be called inside the tokio runtime.
    pub fn of(listener: OwnedFd) -> std::io::Result<Rivals> {
        let watched = ready::watch(File::from(listener));
        let none = || std::io::Error::other("a listening socket cannot be watched");
        watched.map(Rivals).ok_or_else(none)
    }

    fn are_there(&self) -> bool {
        let mut descriptors = [PollFd::new(self.0.get_ref(), PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    async fn come(&self) {
        while !self.are_there() {
            match self.0.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return pending().await,
            }
        }
    }
}

impl Watch {
    pub fn over(rivals: Option<Rivals>) -> Watch {
        Watch {
            rivals,
            asked: false,
            arrived: 0,
            until: None,
        }
    }

    /// The client has said something.
    pub fn heard(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.until = Some(Instant::now() + PATIENCE);
        }
    }

    /// Completes when there is something to do, `of_interest` only; `arrived` says how much
    /// there is of its next message, which may be long and come slowly.
    pub async fn next(&mut self, of_interest: bool, arrived: impl Fn() -> usize) -> Suspicion {
        let Some(rivals) = self.rivals.as_ref().filter(|_| of_interest) else {
            return pending().await;
        };
        if let Some(until) = self.until {
            sleep_until(until).await;
            self.until = None;
            if std::mem::take(&mut self.asked) && arrived() == self.arrived {
                return Suspicion::Gone;
            }
        }
        rivals.come().await;
        self.asked = true;
        self.arrived = arrived();
        self.until = Some(Instant::now() + PATIENCE);
        Suspicion::Ask
    }
}
