//! `checkpoint`: keeps the phrase log under a label.

use serde::Serialize;

use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::checkpoint::Label;
use crate::job::LoadedByHand;

pub const TOOL: Tool = Tool {
    name: "checkpoint",
    title: "Keep the session's state",
    description: "Store the phrases that made the session what it is under a label, as an OCaml \
source file that restore runs again; use it before an experiment or when something works. Returns \
{label, path, phrases}. An earlier checkpoint of that label is replaced. It holds what was \
evaluated, not what was loaded with load, load_project or #load: restore fails at the first phrase \
that needs that, so prefer #require where you can. It needs the phrase log (TOPUP_LOG). Example: \
{\"label\": \"parser-works\"} gives phrases 12 and the path of parser-works.ml.",
    hints: Hints {
        read_only: false,
        destructive: false,
        idempotent: true,
    },
    routed: true,
    fields: &[LABEL],
    run,
};

pub const LABEL: Field = Field {
    name: "label",
    kind: Kind::Text,
    required: true,
    description: "The checkpoint's name: letters, digits, '.', '_' and '-', no leading dot, no \"..\".",
};

#[derive(Serialize)]
struct CheckpointReport {
    label: String,
    path: String,
    phrases: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let text = call.arguments.text("label").unwrap_or_default();
        let label = Label::new(&text).map_err(|e| Failure::new(Phase::Arguments, e))?;
        let turn = call.session.turn(&call.ticket).await?;
        let (source, phrases) = turn.log().await?;
        let by_hand = turn.ask(LoadedByHand {}).await?;
        let checkpoints = turn.checkpoints();
        let text_of_it = source.clone();
        let saved = move || checkpoints.save(&label, &text_of_it);
        let path = tokio::task::spawn_blocking(saved)
            .await
            .map_err(|error| error.to_string())
            .and_then(|path| path)
            .map_err(|error| Failure::new(Phase::Log, error))?;
        let frozen = turn.freeze(path.clone(), source, phrases).await;
        let slow = frozen
            .err()
            .map(|reason| format!("restore will run it again, not go back at once: {reason}"));
        let by_hand = (!by_hand.is_empty()).then(|| {
            format!(
                "not in the file, because it was loaded and not evaluated: {}; running it again fails at the first phrase that needs that",
                by_hand.join(", ")
            )
        });
        let notices: Vec<String> = by_hand.into_iter().chain(slow).collect();
        let report = CheckpointReport {
            label: text,
            path: path.display().to_string(),
            phrases,
            notice: (!notices.is_empty()).then(|| notices.join("\n")),
        };
        Ok(Answer::new(&report, false))
    })
}
