//! OCaml values as Rust data.
//!
//! SAFETY, for the whole file: `value` is a live value of the OCaml type that the function
//! is named after, as declared in the `.mli` files, and no OCaml code or allocation runs
//! before the last of its fields was read.

#![allow(unsafe_code, reason = "reads OCaml's heap")]

use ocaml::sys::{self, Value};

use crate::outcome::{
    Binding, Bindings, Diagnostic, Kind, Loaded, Outcome, Program, Project, Severity, Span,
};
use crate::query::{Completion, Completions, Definition, Typechecked};

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

/// A number and a text.
pub unsafe fn numbered(value: Value) -> (usize, String) {
    unsafe {
        (
            int(field(value, 0)).max(0) as usize,
            string(field(value, 1)),
        )
    }
}

/// `Program.t`.
pub unsafe fn program(value: Value) -> Program {
    unsafe {
        Program {
            text: string(field(value, 0)),
            flags: list(field(value, 1), |v| string(v)),
            phrases: list(field(value, 2), |v| string(v)),
        }
    }
}

/// `Lookup.t`.
pub unsafe fn definition(value: Value) -> Definition {
    unsafe {
        Definition {
            name: string(field(value, 0)),
            kind: string(field(value, 1)),
            typ: string(field(value, 2)),
            location: option(field(value, 3)).map(|v| string(v)),
            value_preview: option(field(value, 4)).map(|v| string(v)),
            doc: option(field(value, 5)).map(|v| string(v)),
            also: list(field(value, 6), |v| {
                (string(field(v, 0)), string(field(v, 1)))
            }),
            interrupted: int(field(value, 7)) != 0,
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

/// The pair that `Toplevel.typecheck` returns.
pub unsafe fn typechecked(value: Value) -> Typechecked {
    unsafe {
        Typechecked {
            outcome: outcome(field(value, 0)),
            directives: list(field(value, 1), |v| string(v)),
        }
    }
}

/// `Completion.t`.
pub unsafe fn completions(value: Value) -> Completions {
    unsafe {
        Completions {
            start: int(field(value, 0)).max(0) as usize,
            prefix: string(field(value, 1)),
            shown: list(field(value, 2), |v| Completion {
                name: string(field(v, 0)),
                kind: string(field(v, 1)),
                typ: option(field(v, 2)).map(|v| string(v)),
            }),
            total: int(field(value, 3)).max(0) as usize,
            interrupted: int(field(value, 4)) != 0,
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
                4 => Kind::Interrupted,
                _ => Kind::Exit,
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

/// A result whose error is a string.
pub unsafe fn result<T>(value: Value, convert: impl Fn(Value) -> T) -> Result<T, String> {
    let content = unsafe { field(value, 0) };
    match unsafe { sys::tag_val(value) } {
        0 => Ok(convert(content)),
        _ => Err(unsafe { string(content) }),
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
