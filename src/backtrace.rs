//! Backtraces of exceptions that leave a native phrase.
//!
//! The runtime runs a phrase's code from C, and forgets the backtrace when an exception
//! passes through. So the phrase itself keeps it: `ocaml/compat/loader_*.ml` puts a handler
//! around its code that calls [`topup_keep_backtrace`].

#![allow(unsafe_code, reason = "OCaml primitives")]

use std::cell::UnsafeCell;
use std::sync::Once;

use ocaml::sys::{self, Value};

unsafe extern "C" {
    // caml/backtrace.h: the primitive of Printexc.get_raw_backtrace.
    fn caml_get_exception_raw_backtrace(unit: Value) -> Value;
    // caml/memory.h; the same signature in every version of OCaml.
    fn caml_register_generational_global_root(value: *mut Value);
    fn caml_modify_generational_global_root(value: *mut Value, new: Value);
}

/// A root of the runtime; OCaml's lock guards it.
struct Kept(UnsafeCell<Value>);

// SAFETY: used by primitives only, which OCaml calls with its lock held.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(sys::UNIT));
static ROOTED: Once = Once::new();

/// The primitive `topup_keep_backtrace : unit -> unit`; to be called first thing in an
/// exception handler.
///
/// # Safety
///
/// OCaml calls it with its lock held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_keep_backtrace(unit: Value) -> Value {
    // SAFETY: the static lives for ever and is registered before its first use as a root.
    unsafe {
        ROOTED.call_once(|| caml_register_generational_global_root(KEPT.0.get()));
        caml_modify_generational_global_root(KEPT.0.get(), caml_get_exception_raw_backtrace(unit));
    }
    sys::UNIT
}

/// The primitive `topup_kept_backtrace : unit -> Printexc.raw_backtrace option`, as the
/// value that was kept: unit where there is none.
///
/// # Safety
///
/// OCaml calls it with its lock held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topup_kept_backtrace(_unit: Value) -> Value {
    // SAFETY: as above.
    unsafe {
        let kept = *KEPT.0.get();
        if kept != sys::UNIT {
            caml_modify_generational_global_root(KEPT.0.get(), sys::UNIT);
        }
        kept
    }
}
