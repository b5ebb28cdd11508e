//! The Rust end of `ocaml/bridge.ml`: boots the OCaml runtime, calls the functions
//! registered there, and turns what they return into plain Rust data.
//!
//! The runtime belongs to the thread that booted it, which holds OCaml's lock except
//! inside [`Runtime::idle`]. Nothing here allocates on OCaml's heap while it holds an
//! OCaml value that it still needs, so no value has to be a root.

#![allow(unsafe_code, reason = "the one place where Rust meets OCaml values")]

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use ocaml::sys::{self, Value};

use crate::error::BootError;
use crate::outcome::{Binding, Bindings, Diagnostic, Kind, Outcome, Severity, Span};
use crate::{Variant, debug_info, interrupt};

unsafe extern "C" {
    // caml/callback.h; as caml_startup, but an exception at start is returned.
    fn caml_startup_exn(argv: *const *const sys::Char) -> Value;
    // caml/signals.h
    fn caml_enter_blocking_section();
    fn caml_leave_blocking_section();
    // caml/printexc.h; a malloc'ed C string.
    fn caml_format_exception(exn: Value) -> *mut libc::c_char;
    // stdio.h; C stubs print through it.
    fn fflush(stream: *mut libc::c_void) -> libc::c_int;
}

/// The OCaml runtime of this process. Neither `Send` nor `Sync`: one thread owns it.
pub struct Runtime {
    eval: Function,
    env: Function,
    flush: Function,
    thread: PhantomData<*const ()>,
}

impl Runtime {
    /// Boots the runtime and the toplevel in it. Call once in a process.
    pub fn boot(variant: Variant) -> Result<Runtime, BootError> {
        let start = || {
            let argv = [c"topup".as_ptr().cast::<sys::Char>(), ptr::null()];
            // SAFETY: argv is null-terminated; its strings are static.
            result(unsafe { caml_startup_exn(argv.as_ptr()) }).map_err(BootError)
        };
        match variant {
            Variant::Bytecode => debug_info::offered(start)?,
            Variant::Native => start()?,
        };
        let boot = Function::named(c"topup_boot")?;
        interrupt::adopt(|| boot.call(UNIT)).map_err(BootError)?;
        Ok(Runtime {
            eval: Function::named(c"topup_eval")?,
            env: Function::named(c"topup_env")?,
            flush: Function::named(c"topup_flush")?,
            thread: PhantomData,
        })
    }

    /// Runs `source` in the toplevel. An error here is a fault of topup: user code's
    /// own failures are part of the outcome.
    pub fn eval(&self, source: &str) -> Result<Outcome, String> {
        // SAFETY: the value is handed on at once.
        let outcome = self.eval.call(unsafe { ocaml_string(source) })?;
        // SAFETY: `Toplevel.eval` returns an `Outcome.t`, and nothing below allocates.
        Ok(unsafe { outcome_of(outcome) })
    }

    /// The value bindings whose names contain `filter` (see `ocaml/workspace.mli`).
    pub fn env(&self, filter: &str, all: bool, limit: usize) -> Result<Bindings, String> {
        let limit = limit.min(isize::MAX as usize / 4) as Value;
        // SAFETY: the string is handed on at once, the other arguments are immediate.
        let pair = self.env.call3(
            unsafe { ocaml_string(filter) },
            immediate(all as Value),
            immediate(limit),
        )?;
        // SAFETY: `Toplevel.env` returns a pair, and nothing below allocates.
        Ok(unsafe {
            Bindings {
                shown: list(field(pair, 0), |v| Binding {
                    name: string(field(v, 0)),
                    typ: string(field(v, 1)),
                }),
                total: int(field(pair, 1)).max(0) as usize,
            }
        })
    }

    /// Empties OCaml's and C's buffers for stdout and stderr.
    pub fn flush(&self) {
        if let Err(reason) = self.flush.call(UNIT) {
            log::warn!("flushing OCaml's channels: {reason}");
        }
        // SAFETY: a null stream means all streams.
        unsafe { fflush(ptr::null_mut()) };
    }

    /// Runs `wait` without OCaml's lock, so that OCaml threads and domains go on.
    pub fn idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        // SAFETY: called by the owning thread with the lock held; `wait` is Rust that
        // knows no OCaml value, and the lock is taken again before we return.
        unsafe { caml_enter_blocking_section() };
        let result = wait();
        unsafe { caml_leave_blocking_section() };
        result
    }
}

/// A closure registered by `ocaml/bridge.ml`, looked up once.
struct Function(*const Value);

const UNIT: Value = sys::UNIT;

impl Function {
    fn named(name: &CStr) -> Result<Function, BootError> {
        // SAFETY: the name is null-terminated. The address returned is a root that the
        // runtime keeps for ever.
        let address = unsafe { sys::caml_named_value(name.as_ptr().cast()) };
        if address.is_null() {
            return Err(BootError(format!(
                "OCaml registered no {}",
                name.to_string_lossy()
            )));
        }
        Ok(Function(address))
    }

    fn call(&self, argument: Value) -> Result<Value, String> {
        // SAFETY: the address is valid (see `named`); the runtime roots both values
        // for the call; an exception is returned, not thrown across our frames.
        result(unsafe { sys::caml_callback_exn(*self.0, argument) })
    }

    fn call3(&self, first: Value, second: Value, third: Value) -> Result<Value, String> {
        // SAFETY: as for `call`.
        result(unsafe { sys::caml_callback3_exn(*self.0, first, second, third) })
    }
}

/// An OCaml string, which the next allocation may move.
unsafe fn ocaml_string(text: &str) -> Value {
    // SAFETY: pointer and length are those of a live string, which is copied.
    unsafe { sys::caml_alloc_initialized_string(text.len(), text.as_ptr().cast()) }
}

/// An immediate OCaml value: an int, or a bool as 0 or 1.
fn immediate(number: Value) -> Value {
    number << 1 | 1
}

fn result(returned: Value) -> Result<Value, String> {
    // caml/mlvalues.h: an exceptional result has 2 in its low bits.
    if returned & 3 != 2 {
        return Ok(returned);
    }
    // SAFETY: the remaining bits are the exception's value; the string is malloc'ed,
    // null-terminated, and freed once.
    unsafe {
        let text = caml_format_exception(returned & !3);
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        Err(message)
    }
}

/// SAFETY for the rest of the file: `value` is a live value of the OCaml type that the
/// function is named after, as declared in `ocaml/outcome.mli`, and no OCaml code or
/// allocation runs before the last of its fields was read.
unsafe fn outcome_of(value: Value) -> Outcome {
    unsafe {
        Outcome {
            value_repr: option(field(value, 0)).map(|v| string(v)),
            typ: option(field(value, 1)).map(|v| string(v)),
            name: option(field(value, 2)).map(|v| string(v)),
            earlier: list(field(value, 3), |v| string(v)),
            warnings: list(field(value, 4), |v| string(v)),
            error: option(field(value, 5)).map(|v| string(v)),
            diagnostics: list(field(value, 6), |v| diagnostic(v)),
            succeeded: list(field(value, 7), |v| string(v)),
        }
    }
}

unsafe fn diagnostic(value: Value) -> Diagnostic {
    unsafe {
        Diagnostic {
            severity: match int(field(value, 0)) {
                0 => Severity::Error,
                _ => Severity::Warning,
            },
            kind: match int(field(value, 1)) {
                0 => Kind::Syntax,
                1 => Kind::Type,
                2 => Kind::Warning,
                3 => Kind::Exception,
                _ => Kind::Interrupted,
            },
            code: Some(string(field(value, 2))).filter(|code| !code.is_empty()),
            message: string(field(value, 3)),
            span: option(field(value, 4)).map(|v| span(v)),
            hints: list(field(value, 5), |v| string(v)),
        }
    }
}

unsafe fn span(value: Value) -> Span {
    let [line, column, end_line, end_column] =
        [0, 1, 2, 3].map(|index| unsafe { int(field(value, index)) }.max(0) as usize);
    Span {
        line,
        column,
        end_line,
        end_column,
    }
}

unsafe fn field(value: Value, index: usize) -> Value {
    unsafe { *sys::field(value, index) }
}

fn int(value: Value) -> isize {
    value >> 1
}

/// Bytes that are not UTF-8 become U+FFFD.
unsafe fn string(value: Value) -> String {
    unsafe {
        let length = sys::caml_string_length(value);
        let bytes = std::slice::from_raw_parts(sys::string_val(value).cast::<u8>(), length);
        String::from_utf8_lossy(bytes).into_owned()
    }
}

unsafe fn option(value: Value) -> Option<Value> {
    if sys::is_block(value) {
        Some(unsafe { field(value, 0) })
    } else {
        None
    }
}

unsafe fn list<T>(mut value: Value, convert: impl Fn(Value) -> T) -> Vec<T> {
    let mut items = Vec::new();
    while sys::is_block(value) {
        items.push(convert(unsafe { field(value, 0) }));
        value = unsafe { field(value, 1) };
    }
    items
}
