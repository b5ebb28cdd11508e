//! A short wait for what comes in a moment.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub type Reply<T> = Result<T, oneshot::error::RecvError>;

/// Most evaluations end in less time than it takes to put a thread to sleep and wake it,
/// twice. So each side looks for the other this long before it sleeps.
pub const SOON: Duration = Duration::from_millis(1);

/// The reply if it comes soon. Everything else that the event loop has to do goes on.
pub async fn soon<T>(finished: &mut oneshot::Receiver<T>) -> Option<Reply<T>> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        match finished.try_recv() {
            Ok(result) => return Some(Ok(result)),
            Err(oneshot::error::TryRecvError::Empty) => {
                // Long enough to leave a core's other hyperthread, the eval thread's perhaps, alone.
                (0..300).for_each(|_| std::hint::spin_loop());
                tokio::task::yield_now().await
            }
            Err(oneshot::error::TryRecvError::Closed) => return None,
        }
    }
    None
}
