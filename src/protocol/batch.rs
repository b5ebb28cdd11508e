//! Batches: several messages in one array, whose replies go out together, as JSON-RPC has it.

use std::collections::HashMap;

/// The batches of a connection that wait for replies.
#[derive(Default)]
pub struct Batches {
    last: u64,
    open: HashMap<BatchId, Batch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchId(u64);

struct Batch {
    waiting: usize,
    replies: Vec<String>,
}

impl Batches {
    /// A batch in which `requests` messages want a reply.
    pub fn begin(&mut self, requests: usize) -> BatchId {
        self.last += 1;
        let id = BatchId(self.last);
        if requests > 0 {
            self.open.insert(
                id,
                Batch {
                    waiting: requests,
                    replies: Vec::new(),
                },
            );
        }
        id
    }

    /// One of them got `reply`, or was taken back and gets none. Returns the line that
    /// answers the batch, once it is complete.
    pub fn settle(&mut self, id: BatchId, reply: Option<String>) -> Option<String> {
        let batch = self.open.get_mut(&id)?;
        batch.replies.extend(reply);
        batch.waiting -= 1;
        if batch.waiting > 0 {
            return None;
        }
        let replies = self.open.remove(&id)?.replies;
        (!replies.is_empty()).then(|| format!("[{}]", replies.join(",")))
    }
}
