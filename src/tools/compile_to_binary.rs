//! `compile_to_binary`: the session becomes a native program.

use std::path::PathBuf;

use serde::Serialize;

use super::{Answer, Call, Failure, Field, Hints, Kind, Phase, Running, Tool};
use crate::bytes::Bytes;
use crate::job::{MakeProgram, Packages};
use crate::promotion::{self, Build, Project};

pub const TOOL: Tool = Tool {
    name: "compile_to_binary",
    title: "Compile the session to a program",
    description: "Compile what the session has defined into a native executable that calls entry; \
use it when the code works and is to be kept or shipped. Makes a dune project of the phrase log in \
the folder out and builds out/main.exe, which needs no topup. Returns {ok, binary_path, build_log}; \
when the build fails, ok is false and phrase is the one that the compiler points at. Phrases run \
in the program as they ran here, top-level effects too; directives are left out; packages that \
were #require'd are linked, packages that were #load'ed must be named in libraries, and code of a local project cannot be linked. It needs the \
phrase log (TOPUP_LOG) and dune. Example: {\"entry\": \"main\", \"out\": \"/tmp/app\"} gives \
binary_path \"/tmp/app/main.exe\".",
    hints: Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
    },
    routed: true,
    fields: &[
        Field {
            name: "entry",
            kind: Kind::Text,
            required: true,
            description: "The name of a function in scope of type unit -> _, such as main or App.main.",
        },
        Field {
            name: "out",
            kind: Kind::Text,
            required: true,
            description: "The project's folder: an absolute path, new, empty, or made by an earlier call.",
        },
        Field {
            name: "libraries",
            kind: Kind::Texts,
            required: false,
            description: "Installed findlib packages to link besides those that were #require'd; no paths.",
        },
        Field {
            name: "timeout",
            kind: Kind::Seconds,
            required: false,
            description: "Seconds (fractions allowed) before the build is stopped [default: no limit].",
        },
    ],
    run,
};

#[derive(Serialize)]
struct BuildReport {
    ok: bool,
    binary_path: Option<PathBuf>,
    build_log: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_log_overflow: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    libraries: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phrase: Option<PhraseReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
}

/// A phrase of the log; the lines and columns of the build log count in it.
#[derive(Serialize)]
struct PhraseReport {
    number: usize,
    source: String,
}

fn run(mut call: Call) -> Running {
    Box::pin(async move {
        let arguments = |problem| Failure::new(Phase::Arguments, problem);
        let failed = |problem| Failure::new(Phase::Build, problem);
        let entry = call.arguments.text("entry").unwrap_or_default();
        let out = call.arguments.text("out").unwrap_or_default();
        let named = call.arguments.texts("libraries");
        let limit = call.arguments.seconds("timeout");
        let turn = call.session.turn(&call.ticket).await?;
        let (log, _) = turn.log().await?;
        let program = turn
            .ask(MakeProgram {
                entry,
                log: Bytes(log),
            })
            .await?
            .map_err(arguments)?;
        let libraries = libraries(named, turn.ask(Packages {}).await?).map_err(failed)?;
        let project = Project::claim(&out).map_err(arguments)?;
        project.write(&program, &libraries).map_err(failed)?;
        let build = project.build(limit, turn.stopped(), &call.progress);
        let Build { end, log } = build.await.map_err(failed)?;
        let phrase = culprit(&log, program.phrases);
        let log = turn.cut("build-log", log);
        let mut report = BuildReport {
            ok: false,
            binary_path: None,
            build_log: log.inline,
            build_log_overflow: log.overflow,
            libraries,
            phrase: None,
            error: None,
            phase: None,
        };
        match end {
            Ok(status) if status.success() => {
                report.ok = true;
                report.binary_path = Some(project.install().map_err(failed)?);
            }
            end => {
                report.error = Some(match (end, &phrase) {
                    (Err(stop), _) => stop.to_string(),
                    (Ok(_), Some(phrase)) => format!(
                        "the build failed at phrase {}; build_log says why",
                        phrase.number
                    ),
                    (Ok(_), None) if !project.is_there() => project.gone(),
                    (Ok(status), None) => {
                        format!("the build failed (dune: {status}); build_log says why")
                    }
                });
                report.phase = Some(Phase::Build);
                report.phrase = phrase;
            }
        }
        Ok(Answer::new(&report, report.error.is_some()))
    })
}

/// Those that were named, and what those that were required stand for; each once.
fn libraries(named: Vec<String>, required: Vec<String>) -> Result<Vec<String>, String> {
    let mut libraries: Vec<String> = Vec::new();
    for library in named.into_iter().chain(promotion::linked(&required)?) {
        if !libraries.contains(&library) {
            libraries.push(library);
        }
    }
    Ok(libraries)
}

/// The phrase that the compiler's first message is about.
fn culprit(log: &str, phrases: Vec<String>) -> Option<PhraseReport> {
    let place = log.split_once("File \"phrase ")?.1;
    let number: usize = place.split('"').next()?.parse().ok()?;
    let source = phrases.into_iter().nth(number.checked_sub(1)?)?;
    Some(PhraseReport { number, source })
}
