//! Calls of OCaml functions.

#![allow(unsafe_code, reason = "calls OCaml")]

use std::ffi::CStr;

use ocaml::sys::{self, Value};

use crate::error::BootError;

unsafe extern "C" {
    // caml/printexc.h; a malloc'ed C string.
    fn caml_format_exception(exn: Value) -> *mut libc::c_char;
}

/// A closure registered by `ocaml/bridge.ml`, looked up once.
pub struct Function(*const Value);

pub const UNIT: Value = sys::UNIT;

impl Function {
    pub fn named(name: &CStr) -> Result<Function, BootError> {
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

    pub fn call(&self, argument: Value) -> Result<Value, String> {
        // SAFETY: the address is valid (see `named`); the runtime roots both values
        // for the call; an exception is returned, not thrown across our frames.
        result(unsafe { sys::caml_callback_exn(*self.0, argument) })
    }

    pub fn call_texts(&self, first: &[u8], second: &[u8]) -> Result<Value, String> {
        // SAFETY: the first string is a root while the second one is allocated; then both
        // are handed on at once.
        unsafe {
            let mut first = ocaml_string(first);
            sys::caml_register_generational_global_root(&mut first);
            let second = ocaml_string(second);
            sys::caml_remove_generational_global_root(&mut first);
            result(sys::caml_callback2_exn(*self.0, first, second))
        }
    }

    pub fn call3(&self, first: Value, second: Value, third: Value) -> Result<Value, String> {
        // SAFETY: as for `call`.
        result(unsafe { sys::caml_callback3_exn(*self.0, first, second, third) })
    }
}

/// An OCaml string, which the next allocation may move.
pub unsafe fn ocaml_string(text: &[u8]) -> Value {
    // SAFETY: pointer and length are those of a live slice, which is copied.
    unsafe { sys::caml_alloc_initialized_string(text.len(), text.as_ptr().cast()) }
}

/// An immediate OCaml value: an int, or a bool as 0 or 1.
pub fn immediate(number: Value) -> Value {
    number << 1 | 1
}

/// A number of things, as an OCaml int; more than OCaml can count is as good as none.
pub fn count(number: usize) -> Value {
    immediate(number.min(isize::MAX as usize / 4) as Value)
}

pub fn result(returned: Value) -> Result<Value, String> {
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
