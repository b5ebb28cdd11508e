//! Our own failures. What is wrong with the caller's request is a `tools::Failure` or a
//! `protocol::Fault`; what is wrong with user code is an `Outcome`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::end::End;
use crate::overflow::Cut;

/// The OCaml runtime or its toplevel did not start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BootError(pub String);

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the OCaml toplevel did not start: {}", self.0)
    }
}

impl std::error::Error for BootError {}

/// The toplevel is not there to answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum EvaluatorError {
    Boot(BootError),
    /// OCaml raised where it must not, or the thread ended.
    Fault(String),
    /// There is no phrase log, or it cannot be written.
    Log(String),
    /// The process that evaluated has come to its end, and had printed this.
    #[serde(skip)]
    Ended(Box<(End, Cut, Cut)>),
}

impl fmt::Display for EvaluatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvaluatorError::Boot(error) => error.fmt(f),
            EvaluatorError::Log(reason) => f.write_str(reason),
            EvaluatorError::Fault(reason) => write!(f, "the eval thread failed: {reason}"),
            EvaluatorError::Ended(ended) => ended.0.fmt(f),
        }
    }
}

impl std::error::Error for EvaluatorError {}
