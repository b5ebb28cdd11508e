//! The command line; the only place that ends the process.

use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, RawFd};
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use tokio::sync::mpsc;

use crate::capture::Capture;
use crate::evaluator::Evaluator;
use crate::phrase_log::PhraseLog;
use crate::protocol::mcp::Negotiation;
use crate::reexec::{self, Beginning, Handover};
use crate::router::Router;
use crate::server::{self, Rest, Served};
use crate::session::Local;
use crate::settings::Settings;
use crate::{
    Variant, crash, descriptors, home, limits, logging, process_group, shutdown, stdio, tools,
    transport, user_code,
};

/// A live OCaml toplevel for agents, over the Model Context Protocol.
#[derive(clap::Parser)]
#[command(version, about, after_help = AFTER_HELP)]
struct Arguments {
    /// The memory file that the image of this process before this one left; not for people.
    #[arg(long, hide = true)]
    go_on_from: Option<RawFd>,
}

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
    let memory = matches.get_one::<RawFd>("go_on_from").copied();
    let status = match prepare(variant, memory) {
        Ok(prepared) => serve_reporting(variant, prepared, &beginning),
        Err(problem) => {
            eprintln!("topup: {problem}");
            1
        }
    };
    process_group::end_all();
    crash::ending();
    // Not by returning: evaluations that nobody waits for must not hold us up.
    std::process::exit(status)
}

/// What is done while there is one thread. `memory` is what the image of this process
/// before this one left.
fn prepare(variant: Variant, memory: Option<RawFd>) -> Result<Prepared, String> {
    home::remember();
    limits::remember();
    crash::leave_signals();
    let settings = Settings::from_env().unwrap_or_else(|problem| {
        eprintln!("topup: {problem}");
        std::process::exit(2)
    });
    if let Some(memory) = memory {
        let received = reexec::receive(memory);
        let (handover, [unread, log]) = received.map_err(|e| format!("going on: {e}"))?;
        let resumed = stdio::resume(handover.private());
        let (private, capture) = resumed.map_err(|e| format!("going on: {e}"))?;
        return Ok(Prepared {
            settings,
            private,
            capture,
            before: Some(Before {
                handover,
                unread,
                log,
            }),
        });
    }
    if std::io::stdin().is_terminal() {
        eprintln!(
            "topup: the {} OCaml toplevel waits for MCP messages on stdin (see --help; end with Ctrl-D)",
            variant.name()
        );
    }
    let (private, capture) = stdio::take().map_err(|e| format!("taking stdin and stdout: {e}"))?;
    Ok(Prepared {
        settings,
        private,
        capture,
        before: None,
    })
}

struct Prepared {
    settings: Settings,
    private: stdio::Private,
    capture: Capture,
    before: Option<Before>,
}

/// What the image of this process before this one left.
struct Before {
    handover: Handover,
    unread: Vec<u8>,
    log: Vec<u8>,
}

/// Serves and returns the process's status. Problems go to the original stderr, which fd 2
/// no longer is.
fn serve_reporting(variant: Variant, prepared: Prepared, beginning: &Beginning) -> i32 {
    let stderr = prepared.private.log.try_clone();
    match serve(variant, prepared, beginning) {
        Ok(()) => 0,
        Err(problem) => {
            if let Ok(mut stderr) = stderr {
                let _ = writeln!(stderr, "topup: {problem}");
            }
            1
        }
    }
}

/// Serves the client; if user code brings the process to its end, a fresh image of it does
/// from there on, and this one does not return.
fn serve(variant: Variant, prepared: Prepared, beginning: &Beginning) -> Result<(), String> {
    let Prepared {
        settings,
        private,
        capture,
        before,
    } = prepared;
    let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().map_err(|e| e.to_string());
    let (input, output) = (copy(&private.input)?, copy(&private.output)?);
    let log_lines = private.log.try_clone().map_err(|e| e.to_string())?;
    logging::install(log_lines, settings.log_level);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(user_code::none_here)
        .build();
    let runtime = runtime.map_err(|e| format!("starting the event loop: {e}"))?;
    let served = runtime.block_on(async {
        let shutdown = shutdown::on_signal().map_err(|e| format!("installing signals: {e}"))?;
        let (ended, ends) = mpsc::unbounded_channel();
        let log = match &before {
            Some(before) => PhraseLog::resume(settings.phrase_log.clone(), &before.log),
            None => PhraseLog::open(settings.phrase_log.clone()),
        };
        let unusable = log.unusable();
        let unread = before.as_ref().map_or(&[][..], |before| &before.unread);
        let connection = transport::stdio(input, output, unread).map_err(|e| e.to_string())?;
        crash::watch(ended.clone()).map_err(|e| format!("installing signals: {e}"))?;
        // All that is ours is open, and nothing of user code's.
        descriptors::protect_all().map_err(|e| format!("looking at descriptors: {e}"))?;
        let evaluator = Evaluator::start_with(variant, Some(capture), settings, log, Some(ended));
        let evaluator = evaluator.map_err(|e| format!("starting the eval thread: {e}"))?;
        let local = Arc::new(Local::new(evaluator));
        if let Some(reason) = unusable {
            local.notify(reason);
        }
        let router = Arc::new(Router::new(Arc::clone(&local)));
        let negotiation = match &before {
            Some(Before { handover, .. }) => {
                local.begin_recovery(handover).await;
                Negotiation::resume(handover.revision.as_deref())
            }
            None => Negotiation::default(),
        };
        let served = server::serve(connection, negotiation, router, shutdown, ends).await;
        let Served::Fell(rest) = served else {
            return Ok(());
        };
        let ends = before
            .map(|before| before.handover.ends)
            .unwrap_or_default();
        Err(go_on(beginning, &private, rest, &local, ends))
    });
    // Programs that are waited for are about to be ended.
    runtime.shutdown_background();
    served
}

/// Becomes the next image of this process. Returns only if that fails: why.
fn go_on(
    beginning: &Beginning,
    private: &stdio::Private,
    rest: Rest,
    local: &Local,
    mut ends: Vec<f64>,
) -> String {
    process_group::end_all();
    ends.push(reexec::now());
    let log = local
        .evaluator()
        .log()
        .map(|(log, _)| log)
        .unwrap_or_default();
    let handover = reexec::pass_on(private).map(|private| Handover {
        private,
        revision: rest
            .negotiation
            .agreed()
            .map(|revision| revision.name().into()),
        end: tools::describe(rest.end),
        ends,
        skipped: local.evaluator().skipped(),
        lengths: [rest.unread.len() as u64, log.len() as u64],
    });
    let failed = match handover {
        Ok(handover) => beginning.again(&handover, [&rest.unread, &log]),
        Err(error) => error,
    };
    format!(
        "{}, and going on failed: {failed}",
        tools::describe(rest.end)
    )
}
