//! Checkpoints: copies of the phrase log under a label, in `~/.topup/checkpoints` or where
//! `TOPUP_CHECKPOINT_DIR` says.
//!
//! `<label>.ml` is plain OCaml. It is written next to its place, made durable, and renamed,
//! so that whatever happens the old file or the new one is there, whole.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::home;

/// The name of a checkpoint: `[A-Za-z0-9._-]+`, without a leading dot and without `..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Label(String);

impl Label {
    /// The error says what is wrong with `text`.
    pub fn new(text: &str) -> Result<Label, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let problem = if text.is_empty() {
            "is empty".into()
        } else if let Some(c) = text.chars().find(|c| !plain(*c)) {
            format!("has the character {c:?}")
        } else if text.starts_with('.') {
            "begins with a dot".into()
        } else if text.contains("..") {
            "has two dots in a row".into()
        } else if text.len() > LONGEST {
            format!("has {} characters", text.len())
        } else {
            return Ok(Label(text.into()));
        };
        Err(format!(
            "label {problem}; a label is letters, digits, '.', '_' and '-', at most {LONGEST}, \
             with no leading dot and no \"..\""
        ))
    }
}

/// What file systems allow for a name, less `.ml` and what a temporary name needs.
const LONGEST: usize = 200;

/// The folder of checkpoints.
#[derive(Debug, Clone)]
pub struct Checkpoints(Option<PathBuf>);

impl Checkpoints {
    /// Those in `folder`, or in `~/.topup/checkpoints`.
    pub fn at(folder: Option<PathBuf>) -> Checkpoints {
        Checkpoints(folder)
    }

    /// Stores `source` under `label`, in place of an earlier one. Returns the file's path.
    /// The error says what to do.
    pub fn save(&self, label: &Label, source: &[u8]) -> Result<PathBuf, String> {
        let folder = self.folder();
        let folder = folder.map_err(|error| format!("the folder of checkpoints: {error}"))?;
        let path = path(&folder, label);
        let failed = |error: io::Error| {
            format!(
                "writing the checkpoint {}: {error}; an earlier one is as it was: make room or see \
                 what is in its way, or name another folder with TOPUP_CHECKPOINT_DIR",
                path.display()
            )
        };
        home::store(&path, source).map_err(failed)?;
        Ok(path)
    }

    /// The source stored under `label`, and the file's path. The error names the
    /// checkpoints that there are.
    pub fn load(&self, label: &Label) -> Result<(Vec<u8>, PathBuf), String> {
        let folder = self.folder();
        let folder = folder.map_err(|error| format!("the folder of checkpoints: {error}"))?;
        let path = path(&folder, label);
        match read(&path) {
            Ok(source) => Ok((source, path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("no checkpoint {:?}; {}", label.0, known(&folder)))
            }
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn folder(&self) -> io::Result<PathBuf> {
        match &self.0 {
            Some(folder) => Ok(folder.clone()),
            None => Ok(home::home()?.join(".topup/checkpoints")),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let mut file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link, which is not followed"),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut source = Vec::new();
    file.read_to_end(&mut source)?;
    Ok(source)
}

fn known(folder: &Path) -> String {
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let label = Label::new(name.strip_suffix(".ml")?).ok()?;
        Some(label.0)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut labels: Vec<String> = entries.filter_map(name).collect();
    labels.sort();
    match labels.len() {
        0 => format!("there is none in {}", folder.display()),
        _ => format!("there are: {}", labels.join(", ")),
    }
}

fn path(folder: &Path, label: &Label) -> PathBuf {
    folder.join(format!("{}.ml", label.0))
}
