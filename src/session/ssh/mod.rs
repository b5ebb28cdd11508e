//! The way to another machine: the user's own `ssh`, started without a shell.
//!
//! Two commands: one finds out where the socket is over there, as `~` is that side's, and
//! that there is a topup; the other forwards to that socket and starts the topup behind it.
//! Everything else is what the user's configuration of ssh says.

mod near_end;
mod process;

use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::peer::other_version;
use crate::cli::{RESOLVED, SERVED, SERVING};
use crate::reexec::Beginning;
use crate::settings::Remote;
use crate::signals;
use crate::tools::{Failure, Phase};
pub use process::Process;

/// How this server reaches other machines.
pub struct Ssh {
    beginning: Beginning,
    settings: Remote,
}

/// A forwarded socket.
pub struct Tunnel {
    process: Process,
}

/// What each command is told besides: to ask nothing, to end if it cannot forward, to take
/// 10 s of silence for the end; and to leave connections of the user's own alone: it may use
/// a master that is there, but what ends with us is none.
const OPTIONS: [&str; 8] = [
    "BatchMode=yes",
    "ControlMaster=no",
    "ExitOnForwardFailure=yes",
    "StreamLocalBindUnlink=yes",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
    "RemoteCommand=none",
    "RequestTTY=no",
];

/// What a machine has to answer by, whatever stands in between.
const PATIENCE: Duration = Duration::from_secs(30);

/// A path of a socket must be shorter than this.
pub const LONGEST_PATH: usize = 108;

impl Ssh {
    pub fn new(beginning: Beginning, settings: Remote) -> Ssh {
        Ssh {
            beginning,
            settings,
        }
    }

    /// The absolute path of the socket that `socket` is on `host`.
    pub async fn resolve(
        &self,
        host: &str,
        socket: &str,
        cancel: &CancellationToken,
    ) -> Result<String, Failure> {
        let mut command = self.command();
        command.args(["-o", "ClearAllForwardings=yes", "--", host]);
        command.arg(self.far_command("--resolve-socket", socket));
        let process = start(host, command)?;
        within(host, cancel, &process, process.ended()).await?;
        let heard = process.heard();
        let found = heard.stdout.lines().find_map(|line| {
            line.strip_prefix(RESOLVED)?
                .trim_start()
                .split_once(' ')
                .map(|(version, path)| (version.to_string(), path.to_string()))
        });
        match found {
            Some((version, _)) if version != env!("CARGO_PKG_VERSION") => {
                let problem = format!("{host}: {}", other_version(&version));
                Err(Failure::new(Phase::Handshake, problem))
            }
            Some((_, path)) => Ok(path),
            None => {
                drop(heard);
                Err(self.why(host, &process))
            }
        }
    }

    /// Forwards to the absolute path `socket` on `host`, where topup serves when this
    /// returns; also returns a connection to it, the only one that there can be.
    pub async fn tunnel(
        &self,
        host: &str,
        socket: &str,
        cancel: &CancellationToken,
    ) -> Result<(Tunnel, UnixStream), Failure> {
        // Its near end is for this user alone, and gone once we are connected.
        let folder = near_end::folder()
            .map_err(|error| connect(host, format!("a folder for its socket: {error}")))?;
        let near = folder.path().join(near_end::SOCKET);
        let mut command = self.command();
        let forward = format!("{}:{}", escaped(&near.to_string_lossy()), escaped(socket));
        command.args(["-L", &forward, "--", host]);
        command.arg(self.far_command("--socket", socket));
        let process = start(host, command)?;
        let serves = process.until(|heard| {
            let serves = |line: &String| line.contains(SERVING) || line.contains(SERVED);
            if heard.words.iter().any(serves) {
                return Some(true);
            }
            heard.status.map(|_| false)
        });
        if within(host, cancel, &process, serves).await? != Some(true) {
            process.ended().await;
            return Err(self.why(host, &process));
        }
        let connected = UnixStream::connect(&near)
            .map_err(|error| connect(host, format!("the tunnel: {error}")))?;
        Ok((Tunnel { process }, connected))
    }

    fn command(&self) -> Command {
        let [program, arguments @ ..] = &self.settings.ssh[..] else {
            unreachable!("the settings hold at least a program")
        };
        let mut command = self.beginning.command_of(program.as_ref());
        command.args(arguments).arg("-T");
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        command
    }

    /// What the shell on the far side is to run.
    fn far_command(&self, option: &str, socket: &str) -> String {
        let program = &self.settings.command;
        // A shell resolves `~/` where it is not quoted.
        let program = match program.strip_prefix("~/") {
            Some(rest) => format!("~/{}", quoted(rest)),
            None => quoted(program),
        };
        // As one word: a path that began with a dash would be another option.
        format!("exec {program} {}", quoted(&format!("{option}={socket}")))
    }

    /// Why a command has ended, in its own words.
    fn why(&self, host: &str, process: &Process) -> Failure {
        let heard = process.heard();
        let mut words = heard.words.join("\n");
        let code = heard.status.and_then(|status| status.code());
        let program = &self.settings.command;
        match code {
            Some(127) => {
                let text = format!(
                    "{host}: there is no {program} on the PATH of commands that ssh runs there \
                     ({words}); install topup there, or name it by TOPUP_REMOTE_COMMAND here"
                );
                return Failure::new(Phase::Connect, text);
            }
            // What clap says of an option that it does not know.
            Some(2) if words.contains("--resolve-socket") || words.contains("--socket") => {
                let text = format!(
                    "{host}: what {program} is there is another program, or a topup of another \
                     version: {words}"
                );
                return Failure::new(Phase::Handshake, text);
            }
            Some(0) => {
                let text = format!(
                    "{host}: {program} there is not topup: it ended at once; it said {:?}",
                    heard.stdout.trim_end()
                );
                return Failure::new(Phase::Handshake, text);
            }
            Some(255) if words.trim().is_empty() => {
                words =
                    format!("ssh has failed and said nothing; {program} may have been killed there")
            }
            Some(255) => {}
            Some(code) => words += &format!("\n{program} ended with status {code} there"),
            None => words += &format!("\n{}", by_signal(heard.status)),
        }
        connect(host, words.trim().to_string())
    }
}

impl Tunnel {
    /// Ends it.
    pub fn end(&self) {
        self.process.end();
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Whether ssh has failed. It ends with the same status, but says nothing, when what it
    /// ran there was killed.
    pub fn has_failed(&self) -> bool {
        let status = self.process.heard().status;
        status.is_some_and(|status| status.code() == Some(255)) && !self.last_words().is_empty()
    }

    /// What was said last, most likely about its end.
    pub fn last_words(&self) -> String {
        let heard = self.process.heard();
        let ours = |line: &&String| !line.contains(SERVING) && !line.contains(SERVED);
        let words: Vec<&String> = heard.words.iter().filter(ours).collect();
        let from = words.len().saturating_sub(3);
        let mut text: Vec<String> = words[from..].iter().map(|line| line.to_string()).collect();
        match heard.status.map(|status| status.code()) {
            Some(Some(255)) | None => {}
            Some(Some(code)) => text.push(format!("topup ended there with status {code}")),
            Some(None) => text.push(by_signal(heard.status)),
        }
        text.join("; ")
    }
}

/// How ssh has ended that has no status of its own.
fn by_signal(status: Option<ExitStatus>) -> String {
    let signal = status.and_then(|status| status.signal());
    let name = signal.map_or_else(|| "a signal".into(), signals::name);
    format!("ssh was ended by {name}")
}

fn start(host: &str, command: Command) -> Result<Process, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    Process::start(command).map_err(|error| {
        connect(
            host,
            format!("{program} could not be started (TOPUP_SSH says what to run): {error}"),
        )
    })
}

/// Waits for something of `process`, but not for ever.
async fn within<T>(
    host: &str,
    cancel: &CancellationToken,
    process: &Process,
    what: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        _ = cancel.cancelled() => Err(connect(host, "cancelled".into())),
        done = timeout(PATIENCE, what) => done.map_err(|_| {
            let words = process.heard().words.join("\n");
            let text = format!("no answer within {} s\n{words}", PATIENCE.as_secs());
            connect(host, text.trim_end().to_string())
        }),
    }
}

/// A failure of the way to `host`.
pub fn connect(host: &str, text: String) -> Failure {
    Failure::new(Phase::Connect, format!("{host}: {text}"))
}

/// A word for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A path in a forwarding: colons separate, backslashes escape, percents are ssh's.
fn escaped(path: &str) -> String {
    path.replace('\\', r"\\")
        .replace(':', r"\:")
        .replace('%', "%%")
}
