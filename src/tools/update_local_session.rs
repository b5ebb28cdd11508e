//! `update_local_session`: how a named session is made from its next start on.

use std::path::PathBuf;

use serde::Serialize;

use super::start_local_session::{DESCRIPTION, POOL, PREWARM, SESSION, changes, name};
use super::{Answer, Call, Hints, Running, Tool};

pub const TOOL: Tool = Tool {
    name: "update_local_session",
    title: "Change how a named session is made",
    description: "Set the prewarm file, the pool size or the description of a named session that is \
known; what you leave out stays. Does not touch the session while it runs: restart_local_session \
applies it. Returns {session, prewarm, pool, description}, which is kept in ~/.topup/sessions.json. \
Example: {\"session\": \"data\", \"pool\": 4} gives pool 4.",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: true,
    },
    routed: false,
    fields: &[SESSION, PREWARM, POOL, DESCRIPTION],
    run,
};

#[derive(Serialize)]
struct UpdatedReport {
    session: String,
    prewarm: Option<PathBuf>,
    pool: usize,
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let session = name(&mut call.arguments)?;
        let changes = changes(&mut call.arguments)?;
        let (recipe, notice) = call
            .registry
            .update(&session, changes, &call.ticket)
            .await?;
        let report = UpdatedReport {
            session,
            prewarm: recipe.prewarm,
            pool: recipe.pool,
            description: recipe.description,
            notice,
        };
        Ok(Answer::new(&report, false))
    })
}
