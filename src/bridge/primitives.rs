//! What OCaml calls: the other direction.

#![allow(unsafe_code, reason = "OCaml primitives")]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use ocaml::sys::Value;

use super::function::{UNIT, ocaml_string};
use super::values;
use crate::{toolchain, worker};

/// Takes the text of a phrase as it was written, ended by `;;`.
pub type Recorder = Box<dyn FnMut(&[u8])>;

thread_local! {
    /// The recorder of the toplevel on this thread.
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Names the recorder of the toplevel on this thread.
pub fn record_with(recorder: Recorder) {
    RECORDER.set(Some(recorder));
}

/// The primitive `topup_phrase_succeeded : string -> unit`.
///
/// # Safety
///
/// OCaml calls it with its lock held and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_phrase_succeeded(text: Value) -> Value {
    RECORDER.with_borrow_mut(|recorder| {
        if let Some(record) = recorder {
            // SAFETY: the recorder is Rust that allocates nothing on OCaml's heap.
            record(unsafe { values::bytes(&text) });
        }
    });
    UNIT
}

/// How many phrases the replay that is on has begun; 0 if there is none.
static ATTEMPTED: AtomicUsize = AtomicUsize::new(0);

/// The number of the phrase that a replay is at, from 1; `None` if none is on.
pub fn replaying() -> Option<usize> {
    Some(ATTEMPTED.load(Ordering::Relaxed)).filter(|number| *number > 0)
}

/// Begins to count anew, or ends to.
pub fn no_replay() {
    ATTEMPTED.store(0, Ordering::Relaxed);
}

/// The primitive `topup_phrase_attempted : unit -> unit`.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_phrase_attempted(_unit: Value) -> Value {
    let before = ATTEMPTED.fetch_add(1, Ordering::Relaxed);
    worker::announce_phrase(before + 1);
    UNIT
}

/// The primitive `topup_toolchain_environment : unit -> string`.
///
/// # Safety
///
/// OCaml calls it with its lock held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_toolchain_environment(_unit: Value) -> Value {
    // SAFETY: the string is handed on at once.
    unsafe { ocaml_string(toolchain::shell_environment().as_bytes()) }
}
