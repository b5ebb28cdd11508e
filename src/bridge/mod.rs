//! The Rust end of `ocaml/bridge.ml`: boots the OCaml runtime, calls the functions
//! registered there, and turns what they return into plain Rust data.
//!
//! The runtime belongs to the thread that booted it, which holds OCaml's lock except
//! inside [`Runtime::idle`]. Nothing here allocates on OCaml's heap while it holds an
//! OCaml value that it still needs, so no value has to be a root.

#![allow(unsafe_code, reason = "where Rust meets OCaml")]

mod values;

use std::cell::RefCell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use ocaml::sys::{self, Value};

use crate::error::BootError;
use crate::outcome::{Bindings, Loaded, Outcome, Project};
use crate::{Variant, debug_info, interrupt, toolchain};

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
    replay: Function,
    reset: Function,
    env: Function,
    load: Function,
    load_project: Function,
    packages: Function,
    flush: Function,
    thread: PhantomData<*const ()>,
}

impl Runtime {
    /// Boots the runtime and the toplevel in it. Call once in a process. `record` gets the
    /// text of each phrase for the phrase log, as soon as it has succeeded.
    pub fn boot(variant: Variant, record: Recorder) -> Result<Runtime, BootError> {
        RECORDER.set(Some(record));
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
            replay: Function::named(c"topup_replay")?,
            reset: Function::named(c"topup_reset")?,
            env: Function::named(c"topup_env")?,
            load: Function::named(c"topup_load")?,
            load_project: Function::named(c"topup_load_project")?,
            packages: Function::named(c"topup_packages")?,
            flush: Function::named(c"topup_flush")?,
            thread: PhantomData,
        })
    }

    /// Runs `source` in the toplevel. An error here is a fault of topup: user code's
    /// own failures are part of the outcome.
    pub fn eval(&self, source: &[u8]) -> Result<Outcome, String> {
        self.run(&self.eval, source)
    }

    /// As `eval`, without what the phrases before the last print.
    pub fn replay(&self, source: &[u8]) -> Result<Outcome, String> {
        self.run(&self.replay, source)
    }

    fn run(&self, function: &Function, source: &[u8]) -> Result<Outcome, String> {
        // SAFETY: the value is handed on at once.
        let outcome = function.call(unsafe { ocaml_string(source) })?;
        // SAFETY: both functions return an `Outcome.t`, and nothing below allocates.
        Ok(unsafe { values::outcome(outcome) })
    }

    /// Makes it a toplevel in which nothing has happened.
    pub fn reset(&self) -> Result<(), String> {
        self.reset.call(UNIT).map(drop)
    }

    /// The value bindings whose names contain `filter` (see `ocaml/workspace.mli`).
    pub fn env(&self, filter: &str, all: bool, limit: usize) -> Result<Bindings, String> {
        let limit = limit.min(isize::MAX as usize / 4) as Value;
        // SAFETY: the string is handed on at once, the other arguments are immediate.
        let pair = self.env.call3(
            unsafe { ocaml_string(filter.as_bytes()) },
            immediate(all as Value),
            immediate(limit),
        )?;
        // SAFETY: `Toplevel.env` returns such a pair, and nothing below allocates.
        Ok(unsafe { values::bindings(pair) })
    }

    /// Links a file of compiled code and runs its initialisers.
    pub fn load(&self, path: &[u8]) -> Result<Loaded, String> {
        // SAFETY: the value is handed on at once.
        let pair = self.load.call(unsafe { ocaml_string(path) })?;
        // SAFETY: `Toplevel.load` returns such a pair, and nothing below allocates.
        Ok(unsafe { values::loaded(pair) })
    }

    /// Builds a dune project and links its libraries.
    pub fn load_project(&self, folder: &[u8]) -> Result<Project, String> {
        // SAFETY: the value is handed on at once.
        let project = self.load_project.call(unsafe { ocaml_string(folder) })?;
        // SAFETY: `Toplevel.load_project` returns one, and nothing below allocates.
        Ok(unsafe { values::project(project) })
    }

    /// The packages that the session required by name, in order.
    pub fn packages(&self) -> Result<Vec<String>, String> {
        let names = self.packages.call(UNIT)?;
        // SAFETY: `Toplevel.packages` returns a list of strings, and nothing below allocates.
        Ok(unsafe { values::list(names, |name| values::string(name)) })
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

/// Takes the text of a phrase as it was written, ended by `;;`.
pub type Recorder = Box<dyn FnMut(&[u8])>;

thread_local! {
    /// The recorder of the toplevel on this thread.
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
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
unsafe fn ocaml_string(text: &[u8]) -> Value {
    // SAFETY: pointer and length are those of a live slice, which is copied.
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
