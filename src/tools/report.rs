//! The payload of an evaluation, and of other tools' share in it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::Phase;
use crate::crash::End;
use crate::evaluator::{Evaluated, Evaluation, Stop};
use crate::outcome::{self, Diagnostic, Severity};
use crate::overflow::Cut;
use crate::session::Turn;
use crate::signals;

/// The payload of one evaluation.
#[derive(Debug, Serialize)]
pub struct Report {
    value_repr: Option<String>,
    r#type: Option<String>,
    stdout: String,
    stderr: String,
    warnings: Vec<String>,
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<DiagnosticReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_repr_overflow: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_overflow: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_overflow: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
    elapsed_ms: f64,
}

/// One warning or error.
#[derive(Debug, Serialize)]
pub struct DiagnosticReport {
    severity: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    message: String,
    #[serde(flatten)]
    span: Option<SpanReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SpanReport {
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

impl Report {
    pub fn new(evaluation: Evaluation) -> Report {
        let Evaluation {
            result:
                Evaluated {
                    mut outcome,
                    value_repr,
                },
            stdout,
            stderr,
            elapsed,
            stop,
        } = evaluation;
        let notice = stop.and_then(|stop| explain(stop, &mut outcome));
        let (value_repr, value_repr_overflow) =
            value_repr.map_or((None, None), |cut| (Some(cut.inline), cut.overflow));
        Report {
            value_repr,
            r#type: outcome.typ,
            stdout: stdout.inline,
            stderr: stderr.inline,
            warnings: outcome.warnings,
            error: outcome.error,
            name: outcome.name,
            earlier: outcome.earlier,
            diagnostics: outcome.diagnostics.into_iter().map(diagnostic).collect(),
            value_repr_overflow,
            stdout_overflow: stdout.overflow,
            stderr_overflow: stderr.overflow,
            notice,
            elapsed_ms: (elapsed.as_secs_f64() * 1e6).round() / 1e3,
        }
    }

    /// With what the session has to say.
    pub fn noticing(mut self, turn: &Turn) -> Report {
        if let Some(notice) = turn.notice() {
            self.add_notice(notice);
        }
        self
    }

    /// Says something about the session that the caller must know.
    pub fn add_notice(&mut self, text: String) {
        self.notice = Some(match self.notice.take() {
            Some(notice) => format!("{notice}\n{text}"),
            None => text,
        });
    }
}

/// What the toplevel prints for `Sys.Break`.
const BREAK: &str = "Interrupted.";

/// Says in the outcome why it was interrupted; or, if user code caught the interrupt and
/// ended by itself, says so in a notice.
pub fn explain(stop: Stop, outcome: &mut outcome::Outcome) -> Option<String> {
    let (kind, text) = reason(stop);
    let interrupted = |d: &&mut Diagnostic| d.kind == outcome::Kind::Interrupted;
    match outcome.diagnostics.iter_mut().find(interrupted) {
        Some(diagnostic) => {
            diagnostic.kind = kind;
            let said = std::mem::replace(&mut diagnostic.message, text.clone());
            // Where the break hit, and what user code made of it, in OCaml's own words.
            let more = outcome.error.take().unwrap_or_default();
            let more = if said == BREAK {
                more.split_once('\n').map(|(_, place)| place)
            } else {
                Some(&*more)
            };
            outcome.error = Some(match more {
                Some(more) => format!("{text}\n{more}"),
                None => text,
            });
            None
        }
        None => Some(format!(
            "{text}, but it ended by itself: it caught the interrupt or was all but done"
        )),
    }
}

/// Why topup stopped something, as a kind and in words.
pub fn reason(stop: Stop) -> (outcome::Kind, String) {
    match stop {
        Stop::Timeout(limit) => (
            outcome::Kind::Timeout,
            format!("evaluation timed out after {}", seconds(limit)),
        ),
        Stop::Cancelled => (
            outcome::Kind::Cancelled,
            "evaluation timed out: it was cancelled".to_string(),
        ),
        Stop::Memory(limit) => (
            outcome::Kind::Memory,
            format!(
                "evaluation stopped: the process has more than {} MB in memory \
                 (TOPUP_MEMORY_MAX sets the limit)",
                limit >> 20
            ),
        ),
        Stop::Output(limit) => (
            outcome::Kind::Output,
            format!(
                "evaluation stopped: it wrote more than {limit} bytes to stdout and stderr \
                 (TOPUP_OUTPUT_MAX sets the limit)"
            ),
        ),
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

pub fn diagnostic(diagnostic: Diagnostic) -> DiagnosticReport {
    DiagnosticReport {
        severity: match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        kind: match diagnostic.kind {
            outcome::Kind::Syntax => "syntax",
            outcome::Kind::Type => "type",
            outcome::Kind::Warning => "warning",
            outcome::Kind::Exception | outcome::Kind::Interrupted => "exception",
            outcome::Kind::Exit => "exit",
            outcome::Kind::Timeout => "timeout",
            outcome::Kind::Cancelled => "cancelled",
            outcome::Kind::Output => "output",
            outcome::Kind::Memory => "memory",
        },
        code: diagnostic.code,
        message: diagnostic.message,
        span: diagnostic.span.map(|span| SpanReport {
            line: span.line,
            column: span.column,
            end_line: span.end_line,
            end_column: span.end_column,
        }),
        hints: diagnostic.hints,
    }
}

/// What user code printed beside a tool's own result, or failure; left out where it is nothing.
#[derive(Debug, Default, Serialize)]
pub struct Printed {
    #[serde(skip_serializing_if = "String::is_empty")]
    stdout: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_overflow: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_overflow: Option<PathBuf>,
}

impl Printed {
    pub fn new(stdout: Cut, stderr: Cut) -> Printed {
        Printed {
            stdout: stdout.inline,
            stderr: stderr.inline,
            stdout_overflow: stdout.overflow,
            stderr_overflow: stderr.overflow,
        }
    }
}

/// The payload of the call that ran when the process came to its end.
#[derive(Debug, Serialize)]
pub struct CrashReport {
    error: String,
    phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(flatten)]
    printed: Printed,
}

impl CrashReport {
    pub fn new(end: End, printed: Printed) -> CrashReport {
        let then =
            "topup goes on in a fresh process, with the session restored from its phrase log";
        CrashReport {
            error: format!("{}; {then}", describe(end)),
            phase: Phase::Crash,
            signal: match end {
                End::Signal(signal) => Some(signals::name(signal)),
                _ => None,
            },
            printed,
        }
    }
}

/// What would have ended the process.
pub fn describe(end: End) -> String {
    match end {
        End::Signal(signal) => format!(
            "the evaluation crashed the process ({})",
            signals::name(signal)
        ),
        End::Exit(status) => format!("the evaluation ended the process with status {status}"),
        End::Stuck(stop) => format!("{}, and nothing could interrupt it", reason(stop).1),
    }
}
