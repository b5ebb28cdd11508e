//! Cases as data, and what holds for all of them.

use serde_json::Value;

use super::session::{Kind, Session, each_kind};
use crate::support::assert_timed_out;

/// One source that means harm.
pub struct Case {
    pub what: &'static str,
    /// What must be there, each one a phrase of its own.
    pub needs: &'static [&'static str],
    pub source: &'static str,
    pub reply: Reply,
}

/// What the reply says.
pub enum Reply {
    Value(&'static str),
    /// The same; a thread goes on that may close the compiler's own files, too, so that a
    /// phrase fails by that.
    Meddles(&'static str),
    /// Its error contains this; the session is the same.
    Error(&'static str),
    /// The process ended: by a signal, or without.
    Crash(Option<&'static str>),
    /// A timeout came, and an interrupt was enough.
    Interrupted,
    /// A timeout came, and nothing less than a new image was enough.
    Stuck,
}

/// The needs that many cases have.
pub const UNIX: &str = "#require \"unix\"";
pub const THREADS: &str = "#thread;; #require \"threads.posix\"";
/// The library of `harm.ml`.
pub const HARM: &str = "Harm";

/// What an evaluation may take that is to be stopped.
const TIMEOUT: f64 = 0.3;

/// Each case, in a fresh session of each kind: the reply, the bindings afterwards, the same
/// process and connection, and nothing left behind.
pub fn run(cases: &[Case]) {
    for case in cases {
        each_kind(|mut session| {
            session.prepare("let x = 41 let r = ref 1;; r := 7");
            for need in case.needs {
                match *need {
                    HARM => session.load_harm(),
                    phrase => session.prepare(phrase),
                }
            }
            check(&mut session, case);
            session.end();
        });
    }
}

/// A session in which `x` is 41 and `!r` is 7, and still is afterwards.
pub fn check(session: &mut Session, case: &Case) {
    let before = session.descriptors();
    let reply = match case.reply {
        Reply::Interrupted | Reply::Stuck => session.eval_within(case.source, TIMEOUT),
        _ => session.eval(case.source),
    };
    let about = format!("{}, {}", case.what, session.describe());
    case.reply.holds(&reply, &about);
    let mut next = session.eval("x + !r");
    if let Reply::Meddles(_) = case.reply {
        let closed = |error: &str| error.contains("Bad file descriptor");
        while next["error"].as_str().is_some_and(closed) {
            next = session.eval("x + !r");
        }
    }
    assert_eq!(next["value_repr"], "48", "{about}: {next}");
    let is_new = matches!(case.reply, Reply::Crash(_) | Reply::Stuck);
    let restored = next["notice"]
        .as_str()
        .is_some_and(|text| text.contains("restored"));
    assert_eq!(restored, is_new, "{about}: {next}");
    let status = session.client.child.try_wait().expect("asked");
    assert!(status.is_none(), "{about}: {status:?}");
    // One more is a file that a thread of ours has open for a moment.
    let after = session.descriptors();
    assert!(
        after <= before + 1,
        "{about}: {before} descriptors, then {after}"
    );
    let processes = if session.kind == Kind::Named { 1 } else { 0 };
    assert_eq!(session.children().len(), processes, "{about}");
}

impl Reply {
    pub fn holds(&self, reply: &Value, about: &str) {
        let error = reply["error"].as_str();
        match self {
            Reply::Value(value) | Reply::Meddles(value) => {
                assert_eq!(reply["value_repr"], *value, "{about}: {reply}");
            }
            Reply::Error(text) => {
                assert!(error.is_some_and(|e| e.contains(text)), "{about}: {reply}");
                assert!(reply.get("phase").is_none(), "{about}: {reply}");
            }
            Reply::Crash(signal) => assert_crashed(reply, *signal, about),
            Reply::Interrupted => {
                assert!(reply.get("phase").is_none(), "{about}: {reply}");
                assert_timed_out(reply);
            }
            Reply::Stuck => {
                assert_eq!(reply["phase"], "crash", "{about}: {reply}");
                assert_timed_out(reply);
            }
        }
    }
}

pub fn assert_crashed(reply: &Value, signal: Option<&str>, about: &str) {
    assert_eq!(reply["phase"], "crash", "{about}: {reply}");
    assert_eq!(reply["signal"].as_str(), signal, "{about}: {reply}");
    let error = reply["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("session restored from its phrase log"),
        "{about}: {reply}"
    );
}

/// A phrase that ends the process, of the usual kind.
pub const CRASH: &str = "print_int (String.length (Obj.magic 3 : string ref).contents)";
