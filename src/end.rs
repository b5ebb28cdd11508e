//! The end of a process in which user code runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evaluator::Stop;
use crate::signals;

/// How a process ended, or would have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum End {
    Signal(i32),
    Exit(i32),
    /// An evaluation that nothing stops; why it was to stop.
    Stuck(Stop),
    /// Its session was stopped by a call.
    Stopped,
    /// Its session was restarted by a call.
    Restarted,
}

impl End {
    /// How a named session goes on after that.
    pub fn then(&self) -> &'static str {
        match self {
            End::Stopped => "start_local_session brings up another one like it",
            End::Restarted => "the next call finds a fresh one, with its prewarm alone",
            _ => "the next call finds the session restored from its phrase log",
        }
    }
}

impl fmt::Display for End {
    /// What ended the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Signal(signal) => {
                let name = signals::name(*signal);
                write!(f, "the evaluation crashed the process ({name})")
            }
            End::Exit(status) => {
                write!(f, "the evaluation ended the process with status {status}")
            }
            End::Stopped => f.write_str("the session was stopped by a call while this ran"),
            End::Restarted => f.write_str("the session was restarted by a call while this ran"),
            End::Stuck(stop) => write!(f, "{stop}, and nothing could interrupt it"),
        }
    }
}
