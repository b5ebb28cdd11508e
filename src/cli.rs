//! The command line; the only place that ends the process.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;

use crate::capture::Capture;
use crate::evaluator::Evaluator;
use crate::router::Router;
use crate::session::Local;
use crate::settings::Settings;
use crate::{Variant, home, logging, process_group, server, shutdown, stdio, transport};

/// A live OCaml toplevel for agents, over the Model Context Protocol.
#[derive(clap::Parser)]
#[command(version, about, after_help = AFTER_HELP)]
struct Arguments {}

const AFTER_HELP: &str = "\
Without options topup serves MCP on stdin and stdout: register it in an MCP client.

Environment:
  TOPUP_TIMEOUT     seconds that an evaluation may take if its call names no timeout
  TOPUP_INLINE_MAX  bytes of a field that a reply shows [default: 10000]
  TOPUP_OUTPUT_MAX  bytes that one evaluation may print [default: 1073741824]
  TOPUP_LOG         file of the phrase log; off: none [default: a new one in ~/.topup/logs]
  TOPUP_CHECKPOINT_DIR
                    folder of checkpoints [default: ~/.topup/checkpoints]
  TOPUP_LOG_LEVEL   off, error, warn, info, debug or trace [default: off]";

/// Runs the program and ends the process with its status.
pub fn main(variant: Variant) -> ExitCode {
    let name = variant.executable();
    let version = match variant {
        Variant::Bytecode => concat!(env!("CARGO_PKG_VERSION"), " (bytecode toplevel)"),
        Variant::Native => concat!(env!("CARGO_PKG_VERSION"), " (native toplevel)"),
    };
    Arguments::command()
        .name(name)
        .bin_name(name)
        .version(version)
        .get_matches();
    let status = match prepare(variant) {
        Ok(prepared) => serve_reporting(variant, prepared),
        Err(problem) => {
            eprintln!("topup: {problem}");
            1
        }
    };
    process_group::end_all();
    // Not by returning: evaluations that nobody waits for must not hold us up.
    std::process::exit(status)
}

/// What is done while there is one thread.
fn prepare(variant: Variant) -> Result<Prepared, String> {
    home::remember();
    let settings = Settings::from_env().unwrap_or_else(|problem| {
        eprintln!("topup: {problem}");
        std::process::exit(2)
    });
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
    })
}

struct Prepared {
    settings: Settings,
    private: stdio::Private,
    capture: Capture,
}

/// Serves and returns the process's status. Problems go to the original stderr, which fd 2
/// no longer is.
fn serve_reporting(variant: Variant, prepared: Prepared) -> i32 {
    let stderr = prepared.private.log.try_clone();
    match serve(variant, prepared) {
        Ok(()) => 0,
        Err(problem) => {
            if let Ok(mut stderr) = stderr {
                let _ = writeln!(stderr, "topup: {problem}");
            }
            1
        }
    }
}

fn serve(variant: Variant, prepared: Prepared) -> Result<(), String> {
    let Prepared {
        settings,
        private,
        capture,
    } = prepared;
    logging::install(private.log, settings.log_level);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| format!("starting the event loop: {e}"))?;
    let served = runtime.block_on(async {
        let shutdown = shutdown::on_signal().map_err(|e| format!("installing signals: {e}"))?;
        let evaluator = Evaluator::start(variant, Some(capture), settings);
        let evaluator = evaluator.map_err(|e| format!("starting the eval thread: {e}"))?;
        let router = Arc::new(Router::new(Arc::new(Local::new(evaluator))));
        let connection =
            transport::stdio(private.input, private.output).map_err(|e| e.to_string())?;
        server::serve(connection, router, shutdown).await;
        Ok(())
    });
    // Programs that are waited for are about to be ended.
    runtime.shutdown_background();
    served
}
