//! What one evaluation came to, as OCaml reports it: plain data.
//!
//! Twin of `ocaml/outcome.mli`; `bridge/values.rs` converts field by field.

use serde::{Deserialize, Serialize};

/// Everything that OCaml says about the run of one source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the toplevel prints for the last phrase's value.
    pub value_repr: Option<String>,
    /// The type of the last phrase, if it is an expression or a single binding.
    pub typ: Option<String>,
    /// The name that the last phrase bound, if it is a single binding.
    pub name: Option<String>,
    /// The printed text of each phrase before the last.
    pub earlier: Vec<String>,
    /// Each warning as the compiler prints it.
    pub warnings: Vec<String>,
    /// The failure that ended the run, as the compiler prints it.
    pub error: Option<String>,
    pub diagnostics: Vec<Diagnostic>,
}

/// One warning or error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    pub kind: Kind,
    /// `W008`; none where the compiler has no number.
    pub code: Option<String>,
    /// Without location, excerpt and `Error: `.
    pub message: String,
    /// `None` if it is not about a place in the caller's source.
    pub span: Option<Span>,
    pub hints: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Syntax,
    Type,
    /// A compiler warning or alert.
    Warning,
    Exception,
    /// Ended by the break that `Stop` gives the reason for.
    Interrupted,
    /// User code asked the process to end.
    Exit,
    Timeout,
    Cancelled,
    Output,
    Memory,
}

/// A stretch of the caller's source: lines from 1, columns from 0 in characters,
/// the end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

/// A value binding and its type as the toplevel prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    pub name: String,
    pub typ: String,
}

/// What `env` lists: the first of the bindings asked for, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bindings {
    pub shown: Vec<Binding>,
    pub total: usize,
}

/// How a phrase log ran again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// How many phrases succeeded.
    pub phrases: usize,
    /// The numbers, from 1, and errors of those that failed.
    pub lost: Vec<(usize, String)>,
}

/// A session's phrases as one compilation unit (see `ocaml/program.mli`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// An implementation, to be compiled with an empty interface.
    pub text: String,
    /// What the compiler must be told besides.
    pub flags: Vec<String>,
    /// The texts of the phrases; the compiler calls the first one "phrase 1".
    pub phrases: Vec<String>,
}

/// The names of the units that a file brought, or why it brought none.
pub type Loaded = Result<Vec<String>, String>;

/// What came of loading a dune project: names of units, then of bindings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Project {
    pub loaded: Vec<String>,
    pub unchanged: Vec<String>,
    /// Bindings that go on with code which was replaced.
    pub stale: Vec<String>,
    /// Bindings that are gone, because their types have changed.
    pub dropped: Vec<String>,
    /// Whether it is the build that failed, and why.
    pub error: Option<(bool, String)>,
}
