//! Runs `tests/transcripts/*.txt`: phrases, and what `eval` must say to each.
//!
//! A transcript is a session in a fresh process. A step begins with the source, each
//! line behind `> `; before it, `@ 0.5` is its timeout and `@ native` says that only that
//! executable gets it. Then comes what the reply says,
//! field by field; where the executables differ, once under `[bytecode]` and once under
//! `[native]`. Lines that begin with `#` are for readers. `UPDATE=1` rewrites the
//! expectations.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Client, Executable, executables};

struct Step {
    comment: String,
    timeout: Option<f64>,
    /// The only variant that takes this step; all if empty.
    only: String,
    source: String,
    /// For each variant; the empty name stands for all of them.
    expected: Vec<(String, String)>,
}

#[test]
fn every_transcript_holds() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .expect("transcripts")
        .map(|e| e.expect("entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 60, "only {} transcripts", files.len());
    let update = std::env::var_os("UPDATE").is_some();
    let mut failures = String::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a transcript is text");
        let steps = parse(&text);
        assert!(!steps.is_empty(), "{} has no steps", file.display());
        let runs: Vec<_> = executables()
            .into_iter()
            .map(|exe| (exe, run(exe, &steps)))
            .collect();
        if update {
            fs::write(&file, rewrite(&steps, &runs)).expect("written");
            continue;
        }
        for (executable, replies) in &runs {
            compare(&file, *executable, &steps, replies, &mut failures);
        }
    }
    assert!(
        failures.is_empty(),
        "{failures}\n(UPDATE=1 rewrites the transcripts)"
    );
}

fn parse(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut comment = String::new();
    let mut timeout = None;
    let mut only = String::new();
    let mut in_source = false;
    for line in text.lines() {
        if let Some(source) = line.strip_prefix('>') {
            let source = source.strip_prefix(' ').unwrap_or(source);
            if in_source {
                let step = steps.last_mut().expect("a step has begun");
                step.source.push('\n');
                step.source.push_str(source);
            } else {
                steps.push(Step {
                    comment: std::mem::take(&mut comment),
                    timeout: timeout.take(),
                    only: std::mem::take(&mut only),
                    source: source.into(),
                    expected: Vec::new(),
                });
            }
            in_source = true;
            continue;
        }
        in_source = false;
        if line.starts_with('#') {
            comment += line;
            comment.push('\n');
        } else if let Some(option) = line.strip_prefix("@ ") {
            match option.parse() {
                Ok(limit) => timeout = Some(limit),
                Err(_) => only = option.into(),
            }
        } else if let Some(step) = steps.last_mut() {
            match line {
                "" => {}
                "[bytecode]" | "[native]" => {
                    step.expected
                        .push((line[1..line.len() - 1].into(), String::new()));
                }
                _ => {
                    if step.expected.is_empty() {
                        step.expected.push(Default::default());
                    }
                    let (_, text) = step.expected.last_mut().expect("not empty");
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    steps
}

fn run(executable: Executable, steps: &[Step]) -> Vec<String> {
    // Messages that name the current directory must not name the machine's.
    let mut client = Client::start_with(executable, |command| {
        command.current_dir("/");
    });
    let mut reply = |step: &Step| {
        if !step.only.is_empty() && step.only != executable.variant {
            return String::new();
        }
        render(&match step.timeout {
            Some(limit) => client.eval_within(&step.source, limit),
            None => client.eval(&step.source),
        })
    };
    steps.iter().map(&mut reply).collect()
}

/// A reply as a transcript shows it: what is null or empty is left out.
fn render(reply: &Value) -> String {
    let mut text = String::new();
    for key in [
        "value_repr",
        "type",
        "name",
        "stdout",
        "stderr",
        "notice",
        "error",
    ] {
        if let Some(value) = reply[key]
            .as_str()
            .filter(|v| !v.is_empty() || key == "value_repr")
        {
            field(&mut text, key, value);
        }
    }
    for key in ["earlier", "warnings"] {
        for value in reply[key].as_array().into_iter().flatten() {
            field(&mut text, key, value.as_str().expect("a string"));
        }
    }
    for d in reply["diagnostics"].as_array().into_iter().flatten() {
        field(&mut text, "diagnostic", &diagnostic(d));
    }
    if text.is_empty() {
        "nothing\n".into()
    } else {
        text
    }
}

fn field(text: &mut String, key: &str, value: &str) {
    // A cut field names a file whose name differs from run to run.
    let value = match value.split_once("; full at ") {
        Some((head, _)) => &format!("{head}; full at …]"),
        None => value,
    };
    writeln!(text, "{key}: {}", value.replace('\n', "\n  |")).expect("strings grow");
}

fn diagnostic(d: &Value) -> String {
    let mut text = format!(
        "{} {}",
        d["severity"].as_str().unwrap(),
        d["kind"].as_str().unwrap()
    );
    if let Some(code) = d["code"].as_str() {
        text += &format!(" {code}");
    }
    if d["line"].is_number() {
        let at = |line: &str, column: &str| format!("{}:{}", d[line], d[column]);
        text += &format!(" {}-{}", at("line", "column"), at("end_line", "end_column"));
    }
    for hint in d["hints"].as_array().into_iter().flatten() {
        text += &format!(" (hint: {})", hint.as_str().unwrap());
    }
    text
}

fn compare(
    file: &Path,
    executable: Executable,
    steps: &[Step],
    replies: &[String],
    failures: &mut String,
) {
    for (step, got) in steps.iter().zip(replies) {
        let wanted = step
            .expected
            .iter()
            .find(|(variant, _)| variant.is_empty() || variant == executable.variant)
            .map_or("", |(_, text)| text);
        let skipped = got.is_empty();
        if wanted != got && !skipped {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let variant = executable.variant;
            let source = &step.source;
            write!(
                failures,
                "{name} ({variant})\n> {source}\nwanted:\n{wanted}got:\n{got}\n"
            )
            .expect("strings grow");
        }
    }
}

fn rewrite(steps: &[Step], runs: &[(Executable, Vec<String>)]) -> String {
    let mut text = String::new();
    for (index, step) in steps.iter().enumerate() {
        text += &step.comment;
        if let Some(limit) = step.timeout {
            writeln!(text, "@ {limit}").expect("strings grow");
        }
        if !step.only.is_empty() {
            writeln!(text, "@ {}", step.only).expect("strings grow");
        }
        for line in step.source.split('\n') {
            writeln!(text, "{}", format!("> {line}").trim_end()).expect("strings grow");
        }
        let taken: Vec<_> = runs
            .iter()
            .filter(|(_, replies)| !replies[index].is_empty())
            .collect();
        let first = &taken[0].1[index];
        if taken.iter().all(|(_, replies)| &replies[index] == first) {
            text += first;
        } else {
            for (executable, replies) in taken {
                writeln!(
                    text,
                    "[{}]\n{}",
                    executable.variant,
                    replies[index].trim_end()
                )
                .expect("strings grow");
            }
        }
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}
