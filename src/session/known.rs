//! `~/.topup/hosts.json`: what is known of a remote host, and what a host can be called.

use serde::Serialize;
use serde_json::{Map, Value};

use super::kept::Entry;
use super::recipes::apart;
use super::ssh::LONGEST_PATH;
use crate::router::LOCAL;
use crate::tools::{self, Failure, Phase};

/// What is known of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Known {
    /// For agents: what the host is for.
    pub description: Option<String>,
    /// For agents: what it runs.
    pub os: Option<String>,
    /// Where topup serves there, if not at the default place.
    pub remote_socket: Option<String>,
    /// What another version of topup has written here.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Entry for Known {
    fn read(name: &str, fields: Map<String, Value>) -> Result<Known, String> {
        check(name).map_err(|failure| failure.error)?;
        let (mut given, rest) = apart(fields, &["description", "os", "remote_socket"]);
        let remote_socket = match given.remove("remote_socket") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) => Some(path),
            Some(other) => return Err(format!("remote_socket must be a string, not {other}")),
        };
        if let Some(path) = &remote_socket {
            check_socket(path).map_err(|failure| failure.error)?;
        }
        given.insert("host".into(), name.into());
        let [description, os] = tools::check_host(given)?;
        Ok(Known {
            description,
            os,
            remote_socket,
            rest,
        })
    }
}

/// A host may be whatever ssh takes, but no option, and nothing that a `ProxyCommand` of the
/// user's would hand to a shell.
pub fn check(host: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_alphanumeric() || "._-@:[]%/+=~".contains(c);
    let problem = if host.is_empty() {
        "is empty".to_string()
    } else if host == LOCAL {
        "means this machine, which needs no connection".to_string()
    } else if host.starts_with('-') {
        "begins with a dash".to_string()
    } else if let Some(c) = host.chars().find(|c| !plain(*c)) {
        format!("has the character {c:?}")
    } else {
        return Ok(());
    };
    let text = format!(
        "host {host:?} {problem}; a host is what ssh takes: a name of ~/.ssh/config, or user@machine"
    );
    Err(Failure::new(Phase::Arguments, text))
}

/// A path for ssh and for a shell on the far side.
pub fn check_socket(path: &str) -> Result<(), Failure> {
    let problem = if path.is_empty() {
        "is empty".to_string()
    } else if let Some(c) = path.chars().find(|c| c.is_control()) {
        format!("has the character {c:?}")
    } else if path.contains("${") {
        "has ${, which ssh takes for a variable".to_string()
    } else if path.len() >= LONGEST_PATH {
        format!("has {} bytes", path.len())
    } else {
        return Ok(());
    };
    let text = format!(
        "remote_socket {path:?} {problem}; it is a path of less than {LONGEST_PATH} bytes on the far side"
    );
    Err(Failure::new(Phase::Arguments, text))
}
