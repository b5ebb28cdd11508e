//! `restore`: runs a checkpoint in a fresh toplevel.

use super::checkpoint::LABEL;
use super::report::Report;
use super::{Answer, Call, Failure, Hints, Phase, Running, Tool};
use crate::checkpoint::Label;
use crate::session::Thawed;

pub const TOOL: Tool = Tool {
    name: "restore",
    title: "Go back to a checkpoint",
    description: "Reset the session and run the phrases of a checkpoint again; use it to undo an \
experiment or to go on where an earlier session was. Returns what eval returns, for the last \
phrase; notice says how many phrases were run. The phrase log then holds the checkpoint's. If a \
phrase fails, the error and notice say which, and the session is what the phrases before it made. \
Effects of its phrases (output, files, network) happen again; what load and load_project brought is \
not loaded again. Example: {\"label\": \"parser-works\"} \
gives notice \"replayed 12 phrases of …/parser-works.ml\".",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: true,
    fields: &[LABEL],
    run,
};

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let text = call.arguments.text("label").unwrap_or_default();
        let arguments = |problem| Failure::new(Phase::Arguments, problem);
        let label = Label::new(&text).map_err(arguments)?;
        let turn = call.session.turn(&call.ticket).await?;
        let (source, path) = turn.checkpoints().load(&label).map_err(arguments)?;
        let thawed = turn.thaw(&path, &source).await?;
        if let Thawed::Back(phrases) = thawed {
            let mut report = Report::empty().noticing(&turn);
            report.add_notice(format!(
                "went back to the process of the checkpoint {}, with mutable state and loaded archives, after {}",
                path.display(),
                count(phrases)
            ));
            return Ok(Answer::new(&report, false));
        }
        let run = turn.restore(source).await?;
        let phrases = run.result.1;
        let mut report = Report::new(run.map(|(evaluated, _)| evaluated)).noticing(&turn);
        let path = path.display();
        report.add_notice(match report.error.is_some() {
            false => format!("replayed {} of {path}", count(phrases)),
            true => format!(
                "phrase {} of {path} failed; the session and its log hold the {} before it",
                phrases + 1,
                count(phrases)
            ),
        });
        if let Thawed::Failed(reason) = thawed {
            report.add_notice(format!(
                "its process could not be gone back to, so that the file was run: {reason}"
            ));
        }
        Ok(Answer::new(&report, report.error.is_some()))
    })
}

fn count(phrases: usize) -> String {
    match phrases {
        1 => "1 phrase".into(),
        _ => format!("{phrases} phrases"),
    }
}
