//! The environment variables that topup reads, checked once at start.

use std::env;
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
    /// `TOPUP_LOG_LEVEL`: off, error, warn, info, debug or trace.
    pub log_level: log::LevelFilter,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            inline_max: 10_000,
            timeout: None,
            output_max: 1 << 30,
            memory_max: memory::default_limit(),
            phrase_log: Place::Off,
            checkpoint_dir: None,
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
