//! The tools: one row each. `tools/list`, dispatch, argument checks and the README's
//! table all derive from [`ALL`].

mod arguments;
mod blobs;
mod cancel;
mod checkpoint;
mod compile_to_binary;
mod complete;
mod descriptors;
mod env;
mod eval;
mod eval_batch;
mod list_sessions;
mod load;
mod load_project;
mod lookup;
mod peer;
mod pull_file;
mod push_file;
mod report;
mod reset;
mod restart_local_session;
mod restart_session;
mod restore;
mod start_local_session;
mod start_session;
mod stop_local_session;
mod stop_session;
mod typecheck;
mod update_host;
mod update_local_session;

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

pub use arguments::{Arguments, Field, Kind, fields};
pub use cancel::cancelled;
pub use descriptors::descriptors;
pub use report::Printed;
pub use start_local_session::check as check_session;
pub use update_host::check as check_host;

use crate::end::End;
use crate::error::EvaluatorError;
use crate::progress::Progress;
use crate::router::{Router, Target};
use crate::session::{Hosts, Registry, Session, Ticket};
use crate::signals;

/// Every tool, in the order of `tools/list`.
pub static ALL: &[Tool] = &[
    eval::TOOL,
    eval_batch::TOOL,
    env::TOOL,
    load::TOOL,
    lookup::TOOL,
    typecheck::TOOL,
    complete::TOOL,
    load_project::TOOL,
    reset::TOOL,
    cancel::TOOL,
    checkpoint::TOOL,
    restore::TOOL,
    compile_to_binary::TOOL,
    list_sessions::TOOL,
    start_local_session::TOOL,
    restart_local_session::TOOL,
    update_local_session::TOOL,
    stop_local_session::TOOL,
    start_session::TOOL,
    restart_session::TOOL,
    update_host::TOOL,
    stop_session::TOOL,
    push_file::TOOL,
    pull_file::TOOL,
];

/// What a topup on another machine calls; not in `tools/list`.
static HIDDEN: &[Tool] = &[
    peer::GREET,
    peer::RECOVER,
    peer::END,
    blobs::SEND,
    blobs::RECV,
];

/// A row of the table.
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    /// For a model: what it does and when to use it, what comes back, state, an example.
    pub description: &'static str,
    pub hints: Hints,
    /// Whether it takes `session` and `host`, and runs there.
    pub routed: bool,
    pub fields: &'static [Field],
    pub run: fn(Call) -> Running,
}

/// MCP's annotations.
pub struct Hints {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
}

/// One call of a tool.
pub struct Call {
    pub arguments: Arguments,
    /// The one that the call was routed to.
    pub session: Arc<Session>,
    /// All named sessions, for the tools that are about them.
    pub registry: Arc<Registry>,
    /// All other machines, for the tools that are about them.
    pub hosts: Arc<Hosts>,
    pub ticket: Ticket,
    pub progress: Progress,
}

pub type Running = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// A finished call: the payload as compact JSON.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub payload: String,
    pub is_error: bool,
}

impl Answer {
    /// `payload` is an error if it says so itself.
    pub fn new(payload: &impl Serialize, is_error: bool) -> Answer {
        let payload = serde_json::to_string(payload)
            .unwrap_or_else(|error| unreachable!("a payload has string keys only: {error}"));
        Answer { payload, is_error }
    }
}

/// A call that failed before or beside user code.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// What, where, and what to do next.
    pub error: String,
    pub phase: Phase,
    /// What ended the process that evaluated, as in `SIGSEGV`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(flatten)]
    pub printed: Box<Printed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Arguments,
    Route,
    Prewarm,
    Log,
    Build,
    Crash,
    /// On the way to another machine.
    Connect,
    /// With what is there.
    Handshake,
    Transfer,
}

impl Failure {
    pub fn new(phase: Phase, error: impl Into<String>) -> Failure {
        Failure {
            error: error.into(),
            phase,
            signal: None,
            printed: Box::default(),
        }
    }

    /// The process that evaluated has come to its `end`; `then` says how the session goes on.
    pub fn crashed(end: End, then: &str, printed: Printed) -> Failure {
        let signal = match end {
            End::Signal(signal) => Some(signals::name(signal)),
            _ => None,
        };
        Failure {
            signal,
            printed: Box::new(printed),
            ..Failure::new(Phase::Crash, format!("{end}; {then}"))
        }
    }

    /// The rule of `tool` that was broken, by something that is no call of it.
    fn rule(self, tool: &Tool) -> String {
        let of_call = format!("{}: ", tool.name);
        self.error
            .strip_prefix(&of_call)
            .unwrap_or(&self.error)
            .to_string()
    }

    /// With what was printed beside it.
    pub fn beside(self, printed: Printed) -> Failure {
        Failure {
            printed: Box::new(printed),
            ..self
        }
    }
}

impl From<EvaluatorError> for Failure {
    fn from(error: EvaluatorError) -> Failure {
        let phase = match error {
            EvaluatorError::Log(_) => Phase::Log,
            EvaluatorError::Boot(_) | EvaluatorError::Fault(_) => Phase::Crash,
            EvaluatorError::Ended(ended) => {
                let (end, stdout, stderr) = *ended;
                return Failure::crashed(end, end.then(), Printed::new(stdout, stderr));
            }
        };
        Failure::new(phase, error.to_string())
    }
}

/// The row named `name`.
pub fn find(name: &str) -> Option<&'static Tool> {
    let mut all = ALL.iter().chain(HIDDEN);
    all.find(|tool| tool.name == name)
}

/// Checks the arguments, picks the session, runs the tool. A failure is an answer, too.
pub async fn call(
    tool: &Tool,
    arguments: Map<String, Value>,
    router: &Router,
    ticket: Ticket,
    progress: Progress,
) -> Answer {
    let cancels = tool.name == cancel::TOOL.name;
    let result = match prepare(tool, arguments, router) {
        Ok((_, Target::Host(host))) if cancels => host.cancel().await,
        Ok((arguments, Target::Host(host))) => {
            host.call(tool.name, arguments.into(), &ticket).await
        }
        Ok((_, Target::Starting(name))) if cancels => {
            Ok(cancelled(router.registry().cancel_start(&name)))
        }
        Ok((_, Target::Starting(name))) => {
            Err(Failure::new(Phase::Route, router.registry().missing(&name)))
        }
        Ok((arguments, Target::Session(session))) => {
            (tool.run)(Call {
                arguments,
                session,
                registry: Arc::clone(router.registry()),
                hosts: Arc::clone(router.hosts()),
                ticket,
                progress,
            })
            .await
        }
        Err(failure) => Err(failure),
    };
    result.unwrap_or_else(|failure| Answer::new(&failure, true))
}

fn prepare(
    tool: &Tool,
    arguments: Map<String, Value>,
    router: &Router,
) -> Result<(Arguments, Target), Failure> {
    let mut arguments = Arguments::check(tool, arguments)?;
    let target = match tool.routed {
        true => router.target(&mut arguments)?,
        false => Target::Session(Arc::clone(router.local())),
    };
    Ok((arguments, target))
}
