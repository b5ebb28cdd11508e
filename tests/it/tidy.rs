//! Holds the README and the layout to the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use topup::tools;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("README.md")
}

/// The files that git tracks or would.
fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(output.stdout).expect("paths are text");
    text.lines()
        .filter(|path| root().join(path).exists())
        .map(str::to_string)
        .collect()
}

/// What stands between backquotes in the first cells of the table under `heading`.
fn first_cells(heading: &str) -> Vec<String> {
    let readme = readme();
    let section = readme
        .split_once(&format!("### {heading}\n"))
        .expect("the section")
        .1;
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_string)
            .collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn the_code_map_names_every_source_file_and_nothing_else() {
    let mapped: BTreeSet<String> = first_cells("Code map").into_iter().collect();
    for path in &mapped {
        assert!(
            root().join(path).exists(),
            "the README maps {path}, which is not there"
        );
    }
    let folders: Vec<&String> = mapped.iter().filter(|path| path.ends_with('/')).collect();
    for path in tracked() {
        let is_source = ["rs", "ml"]
            .iter()
            .any(|e| path.ends_with(&format!(".{e}")));
        let is_script = path.starts_with(".ci/");
        let in_folder = folders
            .iter()
            .any(|folder| path.starts_with(folder.as_str()));
        if (is_source || is_script) && !in_folder {
            assert!(mapped.contains(&path), "the README's code map lacks {path}");
        }
    }
}

#[test]
fn the_tool_table_is_that_of_the_rows() {
    let rows: Vec<String> = tools::ALL
        .iter()
        .map(|tool| {
            let arguments: Vec<String> = tools::fields(tool)
                .map(|f| format!("`{}`{}", f.name, if f.required { "" } else { "?" }))
                .collect();
            format!(
                "| `{}` | {} | {} |",
                tool.name,
                tool.title,
                arguments.join(", ")
            )
        })
        .collect();
    let table = format!("|---|---|---|\n{}\n\n", rows.join("\n"));
    assert!(
        readme().contains(&table),
        "the README's tool table should be:\n{table}"
    );
}

#[test]
fn the_settings_table_names_every_variable() {
    let named: BTreeSet<String> = first_cells("Settings").into_iter().collect();
    let source = fs::read_to_string(root().join("src/settings.rs")).unwrap();
    let read: BTreeSet<String> = source
        .split('"')
        .filter(|text| text.starts_with("TOPUP_") && !text.contains(' '))
        .map(str::to_string)
        .collect();
    assert_eq!(named, read);
}

#[test]
fn the_commands_in_the_readme_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let readme = readme();
    for words in readme.split("make ").skip(1) {
        let target: String = words
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        assert!(makefile.contains(&format!("\n{target}:")), "make {target}");
    }
}

#[test]
fn sources_are_small_and_unsafe_code_has_an_address() {
    const UNSAFE: [&str; 19] = [
        "src/adopt.rs",
        "src/backtrace.rs",
        "src/crash.rs",
        "src/bridge/function.rs",
        "src/bridge/mod.rs",
        "src/bridge/primitives.rs",
        "src/bridge/values.rs",
        "src/debug_info.rs",
        "src/descriptors.rs",
        "src/dispositions.rs",
        "src/session/ssh/process.rs",
        "src/exits.rs",
        "src/stack.rs",
        "src/command.rs",
        "src/interrupt.rs",
        "src/worker/fork.rs",
        "src/transport/ready.rs",
        "src/bin/topup.rs",
        "src/bin/topup-opt.rs",
    ];
    for path in tracked() {
        let in_product = path.starts_with("src/") || path.starts_with("ocaml/");
        if !in_product || path.ends_with("dune") {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).unwrap();
        assert!(text.lines().count() <= 300, "{path} is past 300 lines");
        let allows = text.contains("allow(unsafe_code");
        assert_eq!(
            allows,
            UNSAFE.contains(&path.as_str()),
            "unsafe code in {path}"
        );
    }
}

#[test]
fn every_test_file_is_run() {
    let is_run = |folder: &str, main: &str| {
        let folder = root().join(folder);
        let modules = fs::read_to_string(folder.join(main)).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_module = path.is_dir() || path.extension().is_some_and(|e| e == "rs");
            assert!(
                !is_module || path.ends_with(main) || modules.contains(&format!("mod {name};")),
                "{name} is not run"
            );
        }
    };
    is_run("tests/it", "main.rs");
    is_run("tests/it/survival", "mod.rs");
    is_run("tests/it/remote", "mod.rs");
}

#[test]
fn nothing_names_this_machine() {
    let home = std::env::var("HOME").unwrap_or_default();
    let needles = [root().to_str().unwrap().to_string() + "/", home + "/"];
    for path in tracked() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for needle in needles.iter().filter(|needle| needle.len() > 2) {
            assert!(!text.contains(needle.as_str()), "{path} names {needle}");
        }
    }
}
