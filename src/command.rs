//! `Sys.command` for user code: the runtime's own, after a flush, so that what was
//! printed before the command comes before what the command prints.
//!
//! build.rs renames the runtime's function; OCaml code of both variants, loaded at any
//! time, calls this one in its place.

#![allow(unsafe_code, reason = "an OCaml primitive")]

use ocaml::sys::{self, Value};

unsafe extern "C" {
    fn topup_runtime_system_command(command: Value) -> Value;
    // caml/memory.h; the same signature in every version of OCaml.
    fn caml_register_generational_global_root(value: *mut Value);
    fn caml_remove_generational_global_root(value: *mut Value);
}

/// The primitive `caml_sys_system_command`: `string -> int`.
///
/// # Safety
///
/// OCaml calls it with its lock held and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn caml_sys_system_command(command: Value) -> Value {
    let mut command = command;
    // SAFETY: the flush runs OCaml code, which may move the string, so it is a root
    // meanwhile. The named value is a root of the runtime. A flush that fails (a closed
    // or full stdout) must not stop the command, so its exception is dropped.
    unsafe {
        let flush = sys::caml_named_value(c"topup_flush".as_ptr().cast());
        if !flush.is_null() {
            caml_register_generational_global_root(&mut command);
            sys::caml_callback_exn(*flush, sys::UNIT);
            caml_remove_generational_global_root(&mut command);
        }
        topup_runtime_system_command(command)
    }
}
