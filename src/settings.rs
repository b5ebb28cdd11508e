//! The environment variables that topup reads, checked once at start.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::phrase_log::Place;
use crate::{home, memory};

/// Limits that hold for every evaluation of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `TOPUP_INLINE_MAX`: bytes of a field that a reply shows.
    pub inline_max: usize,
    /// `TOPUP_TIMEOUT`: for evaluations that name none.
    pub timeout: Option<Duration>,
    /// `TOPUP_OUTPUT_MAX`: bytes that one evaluation may write to stdout and stderr.
    pub output_max: u64,
    /// `TOPUP_MEMORY_MAX`: bytes that the process may have in memory before an evaluation
    /// that takes more is stopped.
    pub memory_max: u64,
    /// `TOPUP_LOG`: where the phrase log is.
    pub phrase_log: Place,
    /// `TOPUP_CHECKPOINT_DIR`: where checkpoints are; `~/.topup/checkpoints` if `None`.
    pub checkpoint_dir: Option<PathBuf>,
    pub remote: Remote,
    pub transfer: Transfer,
    /// `TOPUP_LOG_LEVEL`: off, error, warn, info, debug or trace.
    pub log_level: log::LevelFilter,
}

/// How other machines are reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// `TOPUP_SSH`: the program and its first arguments.
    pub ssh: Vec<String>,
    /// `TOPUP_REMOTE_COMMAND`: topup on the far side.
    pub command: String,
}

/// What files may be copied between machines, and where they go if nobody says.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// `TOPUP_XFER_DIR`.
    pub folder: TransferFolder,
    /// `TOPUP_XFER_MAX_BYTES`.
    pub max: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TransferFolder {
    /// `~/.topup/xfer`.
    Default,
    At(PathBuf),
    /// None: each call names its files.
    Off,
}

/// A file goes in one message, which has at most 256 MB, in base64.
const TRANSFER_MOST: u64 = 128 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            inline_max: 10_000,
            timeout: None,
            output_max: 1 << 30,
            memory_max: memory::default_limit(),
            phrase_log: Place::Off,
            checkpoint_dir: None,
            remote: Remote {
                ssh: vec!["ssh".into()],
                command: "topup".into(),
            },
            transfer: Transfer {
                folder: TransferFolder::Default,
                max: 16 << 20,
            },
            log_level: log::LevelFilter::Off,
        }
    }
}

impl Settings {
    /// Reads the environment. The error names the variable, its value and what it takes.
    pub fn from_env() -> Result<Settings, String> {
        let default = Settings::default();
        let seconds = variable::<f64>("TOPUP_TIMEOUT", "a number of seconds above 0")?;
        Ok(Settings {
            inline_max: variable("TOPUP_INLINE_MAX", "a number of bytes")?
                .unwrap_or(default.inline_max),
            timeout: seconds
                .map(|s| timeout(s).map_err(|e| format!("TOPUP_TIMEOUT={s}: {e}")))
                .transpose()?,
            output_max: variable("TOPUP_OUTPUT_MAX", "a number of bytes")?
                .unwrap_or(default.output_max),
            memory_max: variable("TOPUP_MEMORY_MAX", "a number of bytes")?
                .unwrap_or(default.memory_max),
            phrase_log: match env::var_os("TOPUP_LOG") {
                Some(off) if off == "off" => Place::Off,
                _ => path("TOPUP_LOG")?.map_or(Place::Private, Place::At),
            },
            checkpoint_dir: path("TOPUP_CHECKPOINT_DIR")?,
            remote: Remote {
                ssh: words("TOPUP_SSH")?.unwrap_or(default.remote.ssh),
                command: variable("TOPUP_REMOTE_COMMAND", "the path of topup on the far side")?
                    .unwrap_or(default.remote.command),
            },
            transfer: Transfer {
                folder: match env::var_os("TOPUP_XFER_DIR") {
                    Some(off) if off == "off" => TransferFolder::Off,
                    _ => {
                        path("TOPUP_XFER_DIR")?.map_or(TransferFolder::Default, TransferFolder::At)
                    }
                },
                max: transfer_max(default.transfer.max)?,
            },
            log_level: variable("TOPUP_LOG_LEVEL", "off, error, warn, info, debug or trace")?
                .unwrap_or(default.log_level),
        })
    }
}

/// A time limit of `seconds`, which must be above 0 and no more than a century.
pub fn timeout(seconds: f64) -> Result<Duration, &'static str> {
    const CENTURY: f64 = 3_155_760_000.0;
    if seconds.is_nan() || seconds <= 0.0 {
        return Err("must be a number of seconds above 0");
    }
    Duration::try_from_secs_f64(seconds.min(CENTURY))
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or("must be a number of seconds above 0")
}

fn transfer_max(default: u64) -> Result<u64, String> {
    let max = variable("TOPUP_XFER_MAX_BYTES", "a number of bytes")?.unwrap_or(default);
    match max <= TRANSFER_MOST {
        true => Ok(max),
        false => Err(format!(
            "TOPUP_XFER_MAX_BYTES={max}: a file goes in one message, so it takes at most {TRANSFER_MOST}"
        )),
    }
}

/// A command as a shell would split it.
fn words(name: &str) -> Result<Option<Vec<String>>, String> {
    let Some(text) = variable::<String>(name, "a command")? else {
        return Ok(None);
    };
    match shlex::split(&text) {
        Some(words) if !words.is_empty() => Ok(Some(words)),
        _ => Err(format!(
            "{name}={text}: it takes a command; is a quote left open?"
        )),
    }
}

/// The variables that name a path.
const PATHS: [&str; 3] = ["TOPUP_LOG", "TOPUP_CHECKPOINT_DIR", "TOPUP_XFER_DIR"];

/// The variable as processes get it that are started later: a relative path means what it
/// means now, also when the directory has gone. What cannot be resolved stays for [`path`]
/// to complain of.
pub fn make_absolute(name: &OsStr, value: &mut OsString) {
    if value.is_empty() || value == "off" || !PATHS.iter().any(|path| name == *path) {
        return;
    }
    if let Ok(absolute) = home::expand(value).and_then(std::path::absolute) {
        *value = absolute.into();
    }
}

/// A path: `~/` is resolved, which no shell may have done, and a relative one is in the
/// directory where we start.
fn path(name: &str) -> Result<Option<PathBuf>, String> {
    let Some(path) = env::var_os(name).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let absolute = home::expand(&path).and_then(std::path::absolute);
    absolute
        .map(Some)
        .map_err(|error| format!("{name}={}: {error}", path.to_string_lossy()))
}

fn variable<T: FromStr<Err: Display>>(name: &str, takes: &str) -> Result<Option<T>, String> {
    match env::var(name) {
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(format!("{name} takes {takes}; it is not text")),
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(format!("{name}={text}: {error}; it takes {takes}")),
        },
    }
}
