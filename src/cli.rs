//! The command line; the only place that ends the process.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};

use crate::reexec::{self, Beginning, Handover, take_back};
use crate::service::{self, Before, Client, Clients, Prepared};
use crate::settings::{self, Settings};
use crate::socket::{self, Claimed};
use crate::{Variant, crash, home, limits, process_group, stdio, user_code, worker};

/// A live OCaml toplevel for agents, over the Model Context Protocol.
#[derive(clap::Parser)]
#[command(version, about, after_help = AFTER_HELP)]
struct Arguments {
    /// Serve on this unix socket, one client at a time; the session outlives them. Where
    /// another topup serves already, hold on until stdin ends.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// With --socket: end when for so long no client is there and nothing runs.
    #[arg(long, value_name = "SECONDS", requires = "socket", value_parser = seconds)]
    idle_timeout: Option<Duration>,
    /// The memory file that the image of this process before this one left; not for people.
    #[arg(long, hide = true)]
    go_on_from: Option<RawFd>,
    /// Print where the socket PATH is, for a topup on another machine; not for people.
    #[arg(long, hide = true, value_name = "PATH")]
    resolve_socket: Option<PathBuf>,
    /// Be a worker of the server at the other end of fd 0; not for people.
    #[arg(long, hide = true)]
    worker: bool,
}

/// What stands before the version and the path that `--resolve-socket` prints.
pub const RESOLVED: &str = "topup-socket";
/// What `--socket` says on stderr when it serves, and where another process does: who started
/// it by ssh waits for that.
pub const SERVING: &str = "topup: serving on ";
pub const SERVED: &str = "topup: a topup serves on ";

const AFTER_HELP: &str = "\
Without options topup serves MCP on stdin and stdout: register it in an MCP client.

Environment:
  TOPUP_TIMEOUT     seconds that an evaluation may take if its call names no timeout
  TOPUP_INLINE_MAX  bytes of a field that a reply shows [default: 10000]
  TOPUP_OUTPUT_MAX  bytes that one evaluation may print [default: 1073741824]
  TOPUP_MEMORY_MAX  bytes of memory, above which an evaluation that takes more is stopped
                    [default: three quarters of what the machine or container has]
  TOPUP_LOG         file of the phrase log; off: none [default: a new one in ~/.topup/logs]
  TOPUP_CHECKPOINT_DIR
                    folder of checkpoints [default: ~/.topup/checkpoints]
  TOPUP_SSH         command that reaches other machines [default: ssh]
  TOPUP_REMOTE_COMMAND
                    path of topup on the far side [default: topup]
  TOPUP_XFER_DIR    folder of files that are copied from one machine to another; off: none
                    [default: ~/.topup/xfer]
  TOPUP_XFER_MAX_BYTES
                    bytes that such a file may have [default: 16777216]
  TOPUP_LOG_LEVEL   off, error, warn, info, debug or trace [default: off]";

/// Runs the program and ends the process with its status.
pub fn main(variant: Variant) -> ExitCode {
    user_code::none_here();
    let beginning = Beginning::take();
    let name = variant.executable();
    let version = match variant {
        Variant::Bytecode => concat!(env!("CARGO_PKG_VERSION"), " (bytecode toplevel)"),
        Variant::Native => concat!(env!("CARGO_PKG_VERSION"), " (native toplevel)"),
    };
    let matches = Arguments::command()
        .name(name)
        .bin_name(name)
        .version(version)
        .get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if arguments.worker {
        std::process::exit(worker::run(variant));
    }
    if let Some(path) = &arguments.resolve_socket {
        std::process::exit(print_resolved(path));
    }
    let status = match prepare(variant, &arguments) {
        Ok(Some(prepared)) => service::run(variant, prepared, &beginning),
        Ok(None) => 0,
        Err(problem) => {
            say(&problem);
            1
        }
    };
    process_group::end_all();
    crash::ending();
    // Not by returning: evaluations that nobody waits for must not hold us up.
    std::process::exit(status)
}

/// To stderr, which may be closed or full.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "topup: {text}");
}

fn print_resolved(path: &Path) -> i32 {
    match home::expand(path.as_os_str()).and_then(std::path::absolute) {
        Ok(path) => {
            println!(
                "{RESOLVED} {} {}",
                env!("CARGO_PKG_VERSION"),
                path.display()
            );
            0
        }
        Err(error) => {
            say(&format!("{}: {error}", path.display()));
            1
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    settings::timeout(seconds).map_err(str::to_string)
}

/// What is done while there is one thread. `None` if there is nothing to serve.
fn prepare(variant: Variant, arguments: &Arguments) -> Result<Option<Prepared>, String> {
    home::remember();
    limits::remember();
    crash::leave_signals();
    if let Some(memory) = arguments.go_on_from {
        return resume(memory, arguments.idle_timeout).map(Some);
    }
    let settings = Settings::from_env().unwrap_or_else(|problem| {
        say(&problem);
        std::process::exit(2)
    });
    let socket = arguments.socket.as_deref().map(listen).transpose()?;
    if let Some((Claimed::Live, path)) = &socket {
        hold_on(path);
        return Ok(None);
    }
    if socket.is_none() && std::io::stdin().is_terminal() {
        say(&format!(
            "the {} OCaml toplevel waits for MCP messages on stdin (see --help; end with Ctrl-D)",
            variant.name()
        ));
    }
    let (private, capture) = stdio::take().map_err(|e| format!("taking stdin and stdout: {e}"))?;
    let clients = match socket {
        Some((Claimed::Ours(listener), path)) => Clients::Socket {
            listener: stdio::private(&listener).map_err(|e| e.to_string())?,
            path,
            idle_timeout: arguments.idle_timeout,
            client: None,
        },
        _ => Clients::Stdio(Client {
            input: private.input,
            output: private.output,
        }),
    };
    Ok(Some(Prepared {
        settings,
        log_lines: private.log,
        capture,
        clients,
        before: None,
    }))
}

/// Claims a socket; also returns its absolute path.
fn listen(path: &Path) -> Result<(Claimed, PathBuf), String> {
    let failed = |error: std::io::Error| format!("--socket {}: {error}", path.display());
    let absolute = home::expand(path.as_os_str())
        .and_then(std::path::absolute)
        .map_err(failed)?;
    let claimed = socket::claim(&absolute).map_err(failed)?;
    if let Claimed::Ours(_) = claimed {
        let _ = writeln!(std::io::stderr(), "{SERVING}{}", absolute.display());
    }
    Ok((claimed, absolute))
}

/// Another process serves; who started this one may need it for the tunnel that it is in.
fn hold_on(path: &Path) {
    let _ = writeln!(
        std::io::stderr(),
        "{SERVED}{} already; holding on until stdin ends",
        path.display()
    );
    let mut chunk = [0; 4096];
    while std::io::stdin()
        .read(&mut chunk)
        .is_ok_and(|length| length > 0)
    {}
}

/// Goes on where the image of this process before this one ended. A problem goes where that
/// one's log lines went: fd 2 is user code's.
fn resume(memory: RawFd, idle_timeout: Option<Duration>) -> Result<Prepared, String> {
    let failed = |error: std::io::Error| format!("going on: {error}");
    let (handover, parts) = reexec::receive(memory).map_err(failed)?;
    let mut log_lines = take_back(handover.log_lines).map_err(failed)?;
    let copy = log_lines.try_clone();
    let resumed = copy.and_then(|copy| go_on(handover, parts, copy, idle_timeout));
    resumed.map_err(|error| {
        let problem = failed(error);
        let _ = writeln!(log_lines, "topup: {problem}");
        problem
    })
}

fn go_on(
    mut handover: Handover,
    [unread, unsent, log]: [Vec<u8>; 3],
    log_lines: File,
    idle_timeout: Option<Duration>,
) -> std::io::Result<Prepared> {
    let client = match handover.client {
        Some([input, output]) => Some(Client {
            input: take_back(input)?.into(),
            output: take_back(output)?.into(),
        }),
        None => None,
    };
    let clients = match (handover.listener.take(), client) {
        (Some((listener, path)), client) => Clients::Socket {
            listener: take_back(listener)?.into(),
            path,
            idle_timeout,
            client,
        },
        (None, Some(client)) => Clients::Stdio(client),
        (None, None) => return Err(std::io::Error::other("there is no client")),
    };
    Ok(Prepared {
        settings: Settings::from_env().map_err(std::io::Error::other)?,
        log_lines,
        capture: stdio::capture()?,
        clients,
        before: Some(Before {
            handover,
            unread,
            unsent,
            log,
        }),
    })
}
