//! A session as a native program: a dune project made of its phrases, and the build.
//!
//! The project is the folder that the user named: `dune-project`, `bin/` with `dune`,
//! `main.ml` and an empty `main.mli`, the marker `.topup-promote`, dune's `_build`, and the
//! copy `main.exe`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Signal;

use crate::evaluator::Stop;
use crate::outcome::Program;
use crate::process_group::{self, Group};
use crate::progress::Progress;
use crate::toolchain;

/// Says that a folder's files are ours to replace.
const MARKER: &str = ".topup-promote";

/// A project folder.
pub struct Project(PathBuf);

/// How a build ended.
pub struct Build {
    pub end: Result<ExitStatus, Stop>,
    /// What dune and the compiler said.
    pub log: String,
}

impl Project {
    /// The folder `out`, made if need be. It must be empty, or one of ours.
    pub fn claim(out: &str) -> Result<Project, String> {
        let folder = PathBuf::from(out);
        if !folder.is_absolute() {
            return Err(format!("out must be an absolute path, not {out:?}"));
        }
        let failed = |error: io::Error| format!("out {out}: {error}");
        fs::create_dir_all(&folder).map_err(failed)?;
        let is_empty = fs::read_dir(&folder).map_err(failed)?.next().is_none();
        if !is_empty && !folder.join(MARKER).is_file() {
            return Err(format!(
                "out {out} is not empty and was not made by compile_to_binary (it has no {MARKER}); \
                 name a new or empty folder"
            ));
        }
        fs::write(
            folder.join(MARKER),
            "Made by topup; the next promotion replaces these files.\n",
        )
        .map_err(failed)?;
        Ok(Project(folder))
    }

    /// Writes the project's files; `libraries` are names that dune knows.
    pub fn write(&self, program: &Program, libraries: &[String]) -> Result<(), String> {
        let quoted = |words: &[String]| words.iter().map(|word| quote(word)).collect::<String>();
        let files = [
            (
                "dune-project",
                "(lang dune 2.0)\n(wrapped_executables false)\n".to_string(),
            ),
            (
                "bin/dune",
                format!(
                    "(executable\n (name main)\n (flags (-w -a{}))\n (libraries{}))\n",
                    quoted(&program.flags),
                    quoted(libraries)
                ),
            ),
            ("bin/main.mli", String::new()),
            ("bin/main.ml", program.text.clone()),
        ];
        for (name, text) in files {
            let path = self.0.join(name);
            // What has not changed keeps its time, and dune its work.
            if fs::read_to_string(&path).is_ok_and(|old| old == text) {
                continue;
            }
            replace(&path, text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }

    /// Runs dune. When `stop` completes or the time is up, everything it started is ended.
    pub async fn build(
        &self,
        limit: Option<Duration>,
        stop: impl Future<Output = ()>,
        progress: &Progress,
    ) -> Result<Build, String> {
        // In memory: a disk that is full is what it may have to tell of.
        let log = memfd_create("dune", MemfdFlags::CLOEXEC);
        let mut log = File::from(log.map_err(|e| format!("a file for dune's output: {e}"))?);
        let output = || {
            log.try_clone()
                .map_err(|e| format!("a file for dune's output: {e}"))
        };
        let mut dune = Command::new("dune");
        dune.args([
            "build",
            "--display",
            "short",
            "--root",
            ".",
            "./bin/main.exe",
        ])
        .current_dir(&self.0)
        .envs(toolchain::environment())
        .env_remove("DUNE_BUILD_DIR")
        .env_remove("DUNE_WORKSPACE")
        .stdin(Stdio::null())
        .stdout(output()?)
        .stderr(output()?);
        let mut group = Group::spawn(&mut dune).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if !self.is_there() => self.gone(),
            io::ErrorKind::NotFound => {
                "no dune on PATH; install it (opam install dune, or your system's package)"
                    .to_string()
            }
            _ => format!("starting dune: {error}"),
        })?;
        let id = group.id();
        let seen = output()?;
        progress.at(move || last_line(&seen));
        let mut ended = tokio::task::spawn_blocking(move || group.wait());
        let deadline = tokio::time::sleep(limit.unwrap_or(Duration::MAX));
        let end = tokio::select! {
            biased;
            status = &mut ended => Ok(status),
            _ = stop => Err(Stop::Cancelled),
            _ = deadline => Err(Stop::Timeout(limit.unwrap_or_default())),
        };
        let end = match end {
            Ok(status) => {
                let status = status.map_err(io::Error::other).and_then(|status| status);
                Ok(status.map_err(|error| format!("waiting for dune: {error}"))?)
            }
            Err(stop) => {
                process_group::signal(id, Signal::TERM);
                if tokio::time::timeout(PATIENCE, &mut ended).await.is_err() {
                    process_group::signal(id, Signal::KILL);
                    let _ = ended.await;
                }
                Err(stop)
            }
        };
        let mut bytes = Vec::new();
        let read = log
            .seek(SeekFrom::Start(0))
            .and_then(|_| log.read_to_end(&mut bytes));
        read.map_err(|error| format!("reading dune's output: {error}"))?;
        Ok(Build {
            end,
            log: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    /// Puts the program in its place and returns that.
    pub fn install(&self) -> Result<PathBuf, String> {
        let built = self.0.join("_build/default/bin/main.exe");
        let path = self.0.join("main.exe");
        let copy = || {
            let mut file = tempfile::Builder::new()
                .prefix(".main-")
                .tempfile_in(&self.0)?;
            io::copy(&mut File::open(&built)?, file.as_file_mut())?;
            file.as_file()
                .set_permissions(fs::metadata(&built)?.permissions())?;
            file.persist(&path).map_err(|error| error.error)
        };
        copy().map_err(|error| match built.exists() {
            true => format!("copying {} to {}: {error}", built.display(), path.display()),
            false => self.gone(),
        })?;
        Ok(path)
    }

    /// Whether nobody has removed what is built.
    pub fn is_there(&self) -> bool {
        self.0.join("bin/main.ml").exists()
    }

    /// What to say if somebody has.
    pub fn gone(&self) -> String {
        format!(
            "the project in {} was removed, or a part of it, while it was built; call \
             compile_to_binary again",
            self.0.display()
        )
    }
}

/// How long dune may take to end its own children.
const PATIENCE: Duration = Duration::from_millis(500);

/// The packages that `required` ones, loaded into a toplevel, stand for in a program: those
/// with code, without what is only for toplevels and preprocessors.
pub fn linked(required: &[String]) -> Result<Vec<String>, String> {
    if required.is_empty() {
        return Ok(Vec::new());
    }
    // To say "mt" makes findlib add the threads library to everything.
    let mut packages = query("native", required)?;
    if packages.lines().any(|line| line.starts_with("threads")) {
        packages = query("native,mt,mt_posix", required)?;
    }
    let code = |line: &str| {
        let mut parts = line.split('|');
        let (package, archive, requires) = (parts.next()?, parts.next()?, parts.next()?);
        let is_for_toplevels =
            requires.contains("compiler-libs") || package.starts_with("compiler-libs");
        (!archive.is_empty() && !is_for_toplevels).then(|| package.to_string())
    };
    Ok(packages.lines().filter_map(code).collect())
}

/// A line for each package that has code: its name, archives and requirements.
fn query(predicates: &str, packages: &[String]) -> Result<String, String> {
    let output = Command::new("ocamlfind")
        .args(["query", "-recursive", "-predicates", predicates])
        .args(["-format", "%p|%a|%(requires)"])
        .args(packages)
        .envs(toolchain::environment())
        .output()
        .map_err(|error| format!("running ocamlfind: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(".topup-")
        .make_in(folder, |path| {
            File::options().write(true).create_new(true).open(path)
        })?;
    file.write_all(text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A word of a dune file, with a space before it.
fn quote(word: &str) -> String {
    let escaped = word
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace("%{", "\\%{");
    format!(" \"{escaped}\"")
}

fn last_line(log: &File) -> String {
    const TAIL: u64 = 400;
    let end = log.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = vec![0; end.min(TAIL) as usize];
    let start = end - bytes.len() as u64;
    let _ = log.read_exact_at(&mut bytes, start);
    let text = String::from_utf8_lossy(&bytes);
    text.lines().last().unwrap_or_default().trim().to_string()
}
