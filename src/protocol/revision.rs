//! The revisions of MCP, and what each of them knows.

/// A revision, the oldest first. The last one has no handshake: each request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

use Revision::*;

impl Revision {
    pub const ALL: [Revision; 5] = [
        V2024_11_05,
        V2025_03_26,
        V2025_06_18,
        V2025_11_25,
        V2026_07_28,
    ];

    pub fn name(self) -> &'static str {
        match self {
            V2024_11_05 => "2024-11-05",
            V2025_03_26 => "2025-03-26",
            V2025_06_18 => "2025-06-18",
            V2025_11_25 => "2025-11-25",
            V2026_07_28 => "2026-07-28",
        }
    }

    pub fn named(name: &str) -> Option<Revision> {
        Revision::ALL
            .into_iter()
            .find(|revision| revision.name() == name)
    }

    /// Whether requests carry everything themselves, instead of a handshake before them.
    pub fn is_stateless(self) -> bool {
        self == V2026_07_28
    }

    /// Whether several messages may come in one array: this revision alone.
    pub fn has_batches(self) -> bool {
        self == V2025_03_26
    }

    /// Whether an error about an unreadable id carries a null for it, as JSON-RPC has it. Later
    /// schemas leave the id out.
    pub fn has_null_ids(self) -> bool {
        self < V2025_11_25
    }

    /// Whether tools have `annotations`, and progress a `message`.
    pub fn has_annotations(self) -> bool {
        self >= V2025_03_26
    }

    /// Whether tools have a `title`.
    pub fn has_titles(self) -> bool {
        self >= V2025_06_18
    }
}
