//! Whether the other end is there. Keep-alives of ssh tell of the network; a topup that is
//! stopped does not answer, either.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::wire::{Kind, Line, Waiting, line};
use crate::mutex::lock;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(5);
/// So many looks in a row that find nothing are one too many: it was asked after the first.
const LOOKS: u32 = 7;
/// While more than so many bytes may be on their way out, silence says nothing: a slow network
/// takes its time.
const ON_ITS_WAY: usize = 64 << 10;

/// Ends the connection when calls wait and nothing comes.
pub async fn watch(
    waiting: Arc<Mutex<Waiting>>,
    lines: mpsc::UnboundedSender<Line>,
    ended: CancellationToken,
) {
    let mut ticks = time::interval_at(Instant::now() + EVERY, EVERY);
    // A time in which this process stood still is one look.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut quiet = 0;
    loop {
        tokio::select! {
            _ = ended.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let mut waiting = lock(&waiting);
        let on_its_way: usize = waiting.calls.values().map(|call| call.length).sum();
        let heard = std::mem::take(&mut waiting.heard);
        if heard || on_its_way == 0 || on_its_way > ON_ITS_WAY {
            quiet = 0;
            continue;
        }
        quiet += 1;
        if quiet == 1 {
            waiting.last += 1;
            let ping = json!({ "jsonrpc": "2.0", "id": waiting.last, "method": "ping" });
            let bytes = line(&ping);
            let kind = Kind::Other;
            let _ = lines.send(Line { bytes, kind });
        } else if quiet == LOOKS {
            waiting.silent = true;
            return ended.cancel();
        }
    }
}
