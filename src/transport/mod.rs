//! How messages reach the server and leave it. Nothing above knows which transport it is.

mod lines;
mod memory;
mod outgoing;
pub mod ready;
mod room;
mod stdio;

pub use lines::{BadLine, Lines, MAX_LINE, Message};
pub use memory::{Peer, memory, of_nobody};
pub use outgoing::Outgoing;
pub use room::Room;
pub use stdio::stdio;

use std::sync::{Arc, Mutex};

use crate::server::Rivals;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A client, as two channels.
pub struct Connection {
    /// Ends when the client has no more to say.
    pub incoming: mpsc::Receiver<Message>,
    pub outgoing: Outgoing,
    /// Cancelled when the client can no longer receive anything.
    pub gone: CancellationToken,
    /// What was read and is not in `incoming` yet.
    pub unread: Unread,
    /// Whether what the client has called for goes on when it has gone.
    pub calls_outlive_it: bool,
    /// Who else would be served.
    pub rivals: Option<Rivals>,
}

/// The bytes between the descriptor and `incoming`. Shared with who reads.
pub type Unread = Arc<Mutex<Lines>>;

/// Messages read ahead of the server. Each may be long.
const READ_AHEAD: usize = 16;
