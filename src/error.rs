//! Our own failures. What is wrong with the caller's request is a `tools::Failure` or a
//! `protocol::Fault`; what is wrong with user code is an `Outcome`.

use std::fmt;

/// The OCaml runtime or its toplevel did not start.
#[derive(Debug, Clone)]
pub struct BootError(pub String);

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the OCaml toplevel did not start: {}", self.0)
    }
}

impl std::error::Error for BootError {}

/// The eval thread is not there to answer.
#[derive(Debug, Clone)]
pub enum EvaluatorError {
    Boot(BootError),
    /// OCaml raised where it must not, or the thread ended.
    Fault(String),
    /// There is no phrase log, or it cannot be written.
    Log(String),
}

impl fmt::Display for EvaluatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvaluatorError::Boot(error) => error.fmt(f),
            EvaluatorError::Log(reason) => f.write_str(reason),
            EvaluatorError::Fault(reason) => write!(f, "the eval thread failed: {reason}"),
        }
    }
}

impl std::error::Error for EvaluatorError {}
