//! OCaml values as Rust data.
//!
//! SAFETY, for the whole file: `value` is a live value of the OCaml type that the function
//! is named after, as declared in the `.mli` files, and no OCaml code or allocation runs
//! before the last of its fields was read.

#![allow(unsafe_code, reason = "reads OCaml's heap")]

use ocaml::sys::{self, Value};

use crate::outcome::{
    Binding, Bindings, Diagnostic, Kind, Loaded, Outcome, Project, Severity, Span,
};

/// `Outcome.t`.
pub unsafe fn outcome(value: Value) -> Outcome {
    unsafe {
        Outcome {
            value_repr: option(field(value, 0)).map(|v| string(v)),
            typ: option(field(value, 1)).map(|v| string(v)),
            name: option(field(value, 2)).map(|v| string(v)),
            earlier: list(field(value, 3), |v| string(v)),
            warnings: list(field(value, 4), |v| string(v)),
            error: option(field(value, 5)).map(|v| string(v)),
            diagnostics: list(field(value, 6), |v| diagnostic(v)),
        }
    }
}

/// The list and the number that `Toplevel.env` returns.
pub unsafe fn bindings(value: Value) -> Bindings {
    unsafe {
        Bindings {
            shown: list(field(value, 0), |v| Binding {
                name: string(field(v, 0)),
                typ: string(field(v, 1)),
            }),
            total: int(field(value, 1)).max(0) as usize,
        }
    }
}

/// The names and the error that `Toplevel.load` returns.
pub unsafe fn loaded(value: Value) -> Loaded {
    unsafe {
        match option(field(value, 1)) {
            Some(error) => Err(string(error)),
            None => Ok(list(field(value, 0), |v| string(v))),
        }
    }
}

/// `Toplevel.project`.
pub unsafe fn project(value: Value) -> Project {
    let texts = |index| unsafe { list(field(value, index), |v| string(v)) };
    Project {
        loaded: texts(0),
        unchanged: texts(1),
        stale: texts(2),
        dropped: texts(3),
        error: unsafe {
            option(field(value, 4)).map(|v| (int(field(v, 0)) != 0, string(field(v, 1))))
        },
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

pub unsafe fn field(value: Value, index: usize) -> Value {
    unsafe { *sys::field(value, index) }
}

pub fn int(value: Value) -> isize {
    value >> 1
}

/// Bytes that are not UTF-8 become U+FFFD.
pub unsafe fn string(value: Value) -> String {
    String::from_utf8_lossy(unsafe { bytes(&value) }).into_owned()
}

/// The bytes of an OCaml string, where they are.
pub unsafe fn bytes(value: &Value) -> &[u8] {
    unsafe {
        let length = sys::caml_string_length(*value);
        std::slice::from_raw_parts(sys::string_val(*value).cast::<u8>(), length)
    }
}

pub unsafe fn option(value: Value) -> Option<Value> {
    if sys::is_block(value) {
        Some(unsafe { field(value, 0) })
    } else {
        None
    }
}

pub unsafe fn list<T>(mut value: Value, convert: impl Fn(Value) -> T) -> Vec<T> {
    let mut items = Vec::new();
    while sys::is_block(value) {
        items.push(convert(unsafe { field(value, 0) }));
        value = unsafe { field(value, 1) };
    }
    items
}
