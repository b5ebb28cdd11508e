//! `start_local_session`: a toplevel in a process of its own.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Answer, Arguments, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::home;
use crate::session::{Changes, Started};

pub const TOOL: Tool = Tool {
    name: "start_local_session",
    title: "Start a named session",
    description: "Bring up another OCaml toplevel under a name, in a process of its own; use it to \
keep work apart, to run things at the same time, or to risk something. Pass its name as session to \
the other tools from then on. prewarm is a file that is #use'd first; with pool above 1 there are \
also siblings <session>.1, <session>.2, …, copies of the prewarmed process that cost next to nothing. \
Returns {session, sessions, pid, prewarm, pool, started}: started is false when it was up already, and \
then nothing was changed. If the prewarm fails there is no session, and the error says why (phase \
prewarm). It ends with this server; what it was started with is kept in ~/.topup/sessions.json. \
Example: {\"session\": \"data\", \"prewarm\": \"/p/load.ml\", \"pool\": 3} gives sessions [\"data\", \"data.1\", \"data.2\"].",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: true,
    },
    routed: false,
    fields: &[SESSION, PREWARM, POOL, DESCRIPTION],
    run,
};

pub const SESSION: Field = Field {
    name: "session",
    kind: Kind::Text,
    required: true,
    description: "The session's name: letters, digits, '_' and '-'.",
};

pub const PREWARM: Field = Field {
    name: "prewarm",
    kind: Kind::Text,
    required: false,
    description: "The path of an OCaml file that the session runs first [default: as it was last time].",
};

pub const POOL: Field = Field {
    name: "pool",
    kind: Kind::Count,
    required: false,
    description: "How many sessions there are to be, with the siblings, at most 64 [default: as last time, or 1].",
};

pub const DESCRIPTION: Field = Field {
    name: "description",
    kind: Kind::Text,
    required: false,
    description: "What the session is for, told to clients when they connect.",
};

/// The payload of the tools that bring a session up.
#[derive(Serialize)]
pub struct StartedReport {
    session: String,
    sessions: Vec<String>,
    pid: Option<i32>,
    prewarm: Option<PathBuf>,
    pool: usize,
    started: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

impl StartedReport {
    pub fn new(session: String, started: Started) -> StartedReport {
        let Started {
            pool,
            is_new,
            warning,
        } = started;
        let names = pool.members.iter().map(|member| member.name().to_string());
        let spawned = pool.spawned.as_ref().map(|why| {
            format!(
                "the siblings were started one by one, which takes longer and more memory: {why}"
            )
        });
        let up = (!is_new).then(|| {
            "it was up already and was left as it is; update_local_session and then \
             restart_local_session change it"
                .to_string()
        });
        let notices: Vec<String> = [warning, spawned, up].into_iter().flatten().collect();
        StartedReport {
            session,
            sessions: names.collect(),
            pid: pool.members[0]
                .evaluator()
                .worker()
                .map(|worker| worker.pid()),
            prewarm: pool.recipe.prewarm.clone(),
            pool: pool.members.len(),
            started: is_new,
            notice: (!notices.is_empty()).then(|| notices.join("\n")),
        }
    }
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let session = name(&mut call.arguments)?;
        let changes = changes(&mut call.arguments)?;
        let started = call.registry.start(&session, changes, &call.ticket).await?;
        Ok(Answer::new(&StartedReport::new(session, started), false))
    })
}

/// Holds an entry of `~/.topup/sessions.json` to the same rules; the error says which one it
/// breaks.
pub fn check(name: &str, mut given: Map<String, Value>) -> Result<Changes, String> {
    given.insert("session".into(), name.into());
    let broken = |failure: Failure| failure.rule(&TOOL);
    let mut arguments = Arguments::check(&TOOL, given).map_err(broken)?;
    self::name(&mut arguments).map_err(broken)?;
    changes(&mut arguments).map_err(broken)
}

/// The name that a call gives to a session.
pub fn name(arguments: &mut Arguments) -> Result<String, Failure> {
    const LONGEST: usize = 64;
    let name = arguments.required("session");
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let problem = if name.is_empty() {
        "is empty".to_string()
    } else if name == crate::router::LOCAL {
        "means the toplevel in the server's own process, which is always there".to_string()
    } else if let Some((primary, _)) = name.split_once('.') {
        format!("has a dot: siblings come and go with {primary:?}, which is what to name")
    } else if let Some(c) = name.chars().find(|c| !plain(*c)) {
        format!("has the character {c:?}")
    } else if name.len() > LONGEST {
        format!("has {} characters", name.len())
    } else {
        return Ok(name);
    };
    let text = format!(
        "session {name:?} {problem}; a name is letters, digits, '_' and '-', at most {LONGEST}"
    );
    Err(Failure::new(Phase::Arguments, text))
}

/// What a call says of how a session is made.
pub fn changes(given: &mut Arguments) -> Result<Changes, Failure> {
    const MOST: usize = 64;
    let arguments = |text: String| Failure::new(Phase::Arguments, text);
    let prewarm = match given.text("prewarm") {
        None => None,
        Some(path) => {
            let absolute = home::expand(path.as_ref()).and_then(std::path::absolute);
            Some(absolute.map_err(|error| arguments(format!("prewarm {path:?}: {error}")))?)
        }
    };
    let pool = given.count("pool");
    if let Some(pool) = pool.filter(|pool| !(1..=MOST).contains(pool)) {
        return Err(arguments(format!(
            "pool must be from 1 to {MOST}, not {pool}"
        )));
    }
    Ok(Changes {
        prewarm,
        pool,
        description: given.description("description")?,
    })
}
