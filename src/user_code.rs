//! Whose code a thread runs.
//!
//! The functions of C that topup defines anew (`src/descriptors.rs`, `src/dispositions.rs`)
//! treat user code in another way than our own. A thread is user code's, which can start
//! threads in many ways, unless it has said otherwise.

use std::cell::Cell;

thread_local! {
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread runs our code from here on.
pub fn none_here() {
    OURS.set(true);
}

/// Whether the calling thread runs user code.
pub fn runs_here() -> bool {
    // A thread that is ending is nobody's.
    !OURS.try_with(Cell::get).unwrap_or(false)
}

/// Calls `work`, which may run user code, on a thread that is ours.
pub fn within<T>(work: impl FnOnce() -> T) -> T {
    OURS.set(false);
    let result = work();
    OURS.set(true);
    result
}
