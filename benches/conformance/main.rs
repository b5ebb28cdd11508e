//! The compiler's own test suite, fed to `eval`.
//!
//! The 5.3.0 source package holds files whose `[%%expect {|…|}]` blocks say what the
//! toplevel must print for the phrases before them. Each file is a fresh session, each
//! block one `eval`; what the reply's fields say must be what the block expects, white
//! space aside. `make test` runs a sample; `make conformance` the folders that the
//! README's table names.

#[path = "../../tests/it/support.rs"]
#[allow(dead_code, reason = "shared with tests/it, which uses the rest")]
mod support;

mod blocks;
mod compare;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::exit;

use serde_json::json;
use support::{Client, Executable, executables, toolchain};

const FOLDERS: [&str; 6] = [
    "basic",
    "messages",
    "tool-toplevel",
    "typing-core-bugs",
    "typing-misc",
    "warnings",
];
/// Small folders, for every run of the tests.
const SAMPLE: [&str; 2] = ["messages", "typing-core-bugs"];

/// The least share of blocks that must pass, in percent.
fn threshold(executable: Executable) -> usize {
    if executable.variant == "bytecode" {
        97
    } else {
        95
    }
}

#[derive(Default)]
struct Score {
    passed: usize,
    total: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let verbose = std::env::args().any(|a| a == "--misses");
    let all = std::env::args().any(|a| a == "--all");
    let Some(suite) = suite() else {
        println!("skipped: the source of OCaml 5.3.0 is not in the cache (make toolchain gets it)");
        return;
    };
    let folders: Vec<&str> = match (all, arguments.is_empty()) {
        (true, _) => FOLDERS.to_vec(),
        (_, true) => SAMPLE.to_vec(),
        _ => arguments.iter().map(String::as_str).collect(),
    };
    let mut failed = false;
    for executable in executables() {
        let mut scores = BTreeMap::new();
        for folder in &folders {
            scores.insert(
                *folder,
                run_folder(executable, &suite.join(folder), verbose),
            );
        }
        failed |= !report(executable, &scores);
    }
    if failed {
        exit(1)
    }
}

fn suite() -> Option<PathBuf> {
    let tests = Path::new(&toolchain("source")).join("testsuite/tests");
    tests.is_dir().then_some(tests)
}

fn run_folder(executable: Executable, folder: &Path, verbose: bool) -> Score {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ml"))
        .collect();
    files.sort();
    let mut score = Score::default();
    for file in files {
        run_file(executable, &file, &mut score, verbose);
    }
    score
}

fn run_file(executable: Executable, file: &Path, score: &mut Score, verbose: bool) {
    let text = String::from_utf8_lossy(&std::fs::read(file).expect("readable")).into_owned();
    let Some(test) = blocks::parse(&text) else {
        return;
    };
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Some(flags) = &test.unsupported {
        if verbose {
            println!("{name}: left out, it needs {flags}");
        }
        return;
    }
    let mut client = Client::start_with(executable, |command| {
        command.current_dir(file.parent().expect("a folder"));
    });
    for directive in &test.directives {
        client.eval(directive);
    }
    for block in &test.blocks {
        for directive in &block.directives {
            client.eval(directive);
        }
        let source = block.source.as_str();
        let (reply, _) = client.call("eval", json!({ "source": source, "timeout": 20 }));
        score.total += 1;
        if compare::agrees(&reply, &block.expected) {
            score.passed += 1;
        } else if verbose {
            println!(
                "--- {name} ({})\n{}\nwanted: {}\ngot: {reply:#}\n",
                executable.variant, block.source, block.expected
            );
        }
    }
}

/// Prints the table; false if a threshold was missed.
fn report(executable: Executable, scores: &BTreeMap<&str, Score>) -> bool {
    let (mut passed, mut total) = (0, 0);
    println!(
        "{:<10} {:<18} {:>7} {:>7}",
        executable.variant, "folder", "passed", "blocks"
    );
    for (folder, score) in scores {
        println!(
            "{:<10} {:<18} {:>7} {:>7}",
            "", folder, score.passed, score.total
        );
        passed += score.passed;
        total += score.total;
    }
    let percent = 100.0 * passed as f64 / total.max(1) as f64;
    println!(
        "{:<10} {:<18} {passed:>7} {total:>7}  {percent:.1} %",
        "", "all"
    );
    println!("{passed} passed, {} failed", total - passed);
    total > 0 && passed * 100 >= total * threshold(executable)
}
