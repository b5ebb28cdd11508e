//! The server: sessions, and the clients that they serve, on stdin and stdout or one after
//! the other on a socket. If user code brings the process to its end, a fresh image of it
//! goes on from there.

mod image;

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown as hang_up};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use image::Before;
use image::Earlier;

use crate::capture::Capture;
use crate::end::End;
use crate::evaluator::Evaluator;
use crate::phrase_log::PhraseLog;
use crate::reexec::Beginning;
use crate::router::Router;
use crate::server::{self, LeftBehind, Rest, Rivals, Served};
use crate::session::{Hosts, Launcher, Registry, Session};
use crate::settings::Settings;
use crate::socket::Socket;
use crate::{Variant, crash, descriptors, logging, shutdown, stdio, transport, user_code};

/// What there is when serving begins.
pub struct Prepared {
    pub settings: Settings,
    /// The original stderr.
    pub log_lines: std::fs::File,
    pub capture: Capture,
    pub clients: Clients,
    pub before: Option<Before>,
}

/// Where clients come from.
pub enum Clients {
    /// One, with an input and an output.
    Stdio(Client),
    Socket {
        listener: OwnedFd,
        path: std::path::PathBuf,
        /// How long the server stays when nobody is there and nothing runs.
        idle_timeout: Option<Duration>,
        /// Who is being served already.
        client: Option<Client>,
    },
}

/// A client's descriptors.
pub struct Client {
    pub input: OwnedFd,
    pub output: OwnedFd,
}

/// Serves and returns the process's status. Problems go to the original stderr, which fd 2
/// no longer is.
pub fn run(variant: Variant, prepared: Prepared, beginning: &Beginning) -> i32 {
    let stderr = prepared.log_lines.try_clone();
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

fn serve(variant: Variant, prepared: Prepared, beginning: &Beginning) -> Result<(), String> {
    let log_lines = prepared.log_lines.try_clone().map_err(|e| e.to_string())?;
    logging::install(log_lines, prepared.settings.log_level);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(user_code::none_here)
        .build();
    let runtime = runtime.map_err(|e| format!("starting the event loop: {e}"))?;
    let served = runtime.block_on(async {
        let (service, clients) = Service::start(variant, prepared, beginning).await?;
        let router = Arc::clone(&service.router);
        let served = service.serve(clients).await;
        router.hosts().leave();
        served
    });
    // Programs that are waited for are about to be ended.
    runtime.shutdown_background();
    served
}

struct Service<'a> {
    beginning: &'a Beginning,
    log_lines: std::fs::File,
    router: Arc<Router>,
    shutdown: CancellationToken,
    ends: mpsc::UnboundedReceiver<End>,
    /// When earlier images of this process came to their ends.
    earlier_ends: Vec<f64>,
    /// The connection in the image before this one.
    before: Earlier,
    /// Calls of clients that have gone.
    left_behind: Vec<LeftBehind>,
}

impl<'a> Service<'a> {
    async fn start(
        variant: Variant,
        prepared: Prepared,
        beginning: &'a Beginning,
    ) -> Result<(Service<'a>, Clients), String> {
        let Prepared {
            settings,
            log_lines,
            capture,
            clients,
            before,
        } = prepared;
        let outlives_clients = matches!(clients, Clients::Socket { .. });
        let shutdown = shutdown::on_signal(outlives_clients);
        let shutdown = shutdown.map_err(|e| format!("installing signals: {e}"))?;
        let (ended, ends) = mpsc::unbounded_channel();
        let place = settings.phrase_log.clone();
        let log = match &before {
            Some(Before { handover, log, .. }) => {
                PhraseLog::resume(place, handover.no_log.as_deref().map_or(Ok(log), Err))
            }
            None => PhraseLog::open(place),
        };
        let unusable = log.unusable();
        crash::watch(ended.clone()).map_err(|e| format!("installing signals: {e}"))?;
        // All that is ours is open, and nothing of user code's.
        descriptors::protect_all().map_err(|e| format!("looking at descriptors: {e}"))?;
        let (limits, end) = (settings.clone(), Some(ended));
        let evaluator = Evaluator::start_with(variant, Some(capture), limits, log, end);
        let evaluator = evaluator.map_err(|e| format!("starting the eval thread: {e}"))?;
        let local = Arc::new(Session::local(evaluator));
        if let Some(reason) = unusable {
            local.notify(reason);
        }
        let (remote, transfer) = (settings.remote.clone(), settings.transfer.clone());
        let hosts = Hosts::new(beginning.clone(), remote, transfer);
        let registry = Registry::new(Launcher::new(beginning.clone(), settings));
        let mut service = Service {
            beginning,
            log_lines,
            router: Arc::new(Router::new(local, registry, hosts)),
            shutdown,
            ends,
            earlier_ends: Vec::new(),
            before: Earlier::default(),
            left_behind: Vec::new(),
        };
        if let Some(before) = before {
            service.resume(before).await?;
        }
        Ok((service, clients))
    }

    /// Serves until there are no more clients, or a signal ends it.
    async fn serve(mut self, clients: Clients) -> Result<(), String> {
        match clients {
            Clients::Stdio(client) => match self.client(&client, None).await? {
                Served::Done(_) => Ok(()),
                Served::Fell(rest) => Err(self.go_on(Some(&client), None, rest)),
            },
            Clients::Socket {
                listener,
                path,
                idle_timeout,
                client,
            } => {
                let socket = Socket::new(listener, path);
                let socket = socket.map_err(|e| format!("listening: {e}"))?;
                let served = self.one_by_one(&socket, idle_timeout, client).await;
                socket.remove();
                served
            }
        }
    }

    async fn one_by_one(
        &mut self,
        socket: &Socket,
        idle_timeout: Option<Duration>,
        mut client: Option<Client>,
    ) -> Result<(), String> {
        loop {
            let current = match client.take() {
                Some(client) => client,
                None => match self.next_client(socket, idle_timeout).await? {
                    Next::Client(client) => client,
                    Next::Over => return Ok(()),
                    Next::Fell(end) => {
                        return Err(self.go_on(None, Some(socket), Rest::of_nobody(end)));
                    }
                },
            };
            match self.client(&current, Some(socket)).await? {
                Served::Fell(rest) => {
                    return Err(self.go_on(Some(&current), Some(socket), rest));
                }
                Served::Done(left) => {
                    self.left_behind.retain_mut(LeftBehind::goes_on);
                    self.left_behind.extend(left);
                }
            }
            // It may still have its end open; who reads there learns that we are done.
            let _ = hang_up(&current.input, Shutdown::Both);
            if self.shutdown.is_cancelled() {
                return Ok(());
            }
        }
    }

    async fn next_client(
        &mut self,
        socket: &Socket,
        idle_timeout: Option<Duration>,
    ) -> Result<Next, String> {
        let idle = async {
            self.router.idle().await;
            tokio::time::sleep(idle_timeout.unwrap_or(Duration::MAX)).await;
        };
        tokio::select! {
            biased;
            _ = self.shutdown.cancelled() => Ok(Next::Over),
            Some(end) = self.ends.recv() => Ok(Next::Fell(end)),
            client = socket.accept() => {
                let copied = client.and_then(|input| {
                    Ok(Client { output: stdio::private(&input)?, input })
                });
                copied.map(Next::Client).map_err(|e| format!("a client: {e}"))
            }
            _ = idle => Ok(Next::Over),
        }
    }

    async fn client(&mut self, client: &Client, socket: Option<&Socket>) -> Result<Served, String> {
        let copy = |fd: &OwnedFd| stdio::private(fd).map_err(|e| e.to_string());
        let before = std::mem::take(&mut self.before);
        let (input, output) = (copy(&client.input)?, copy(&client.output)?);
        let connection = transport::stdio(input, output, &before.unread, &before.unsent);
        let mut connection = connection.map_err(|e| e.to_string())?;
        if let Some(socket) = socket {
            connection.calls_outlive_it = true;
            let listener = stdio::private(&socket.as_fd()).and_then(Rivals::of);
            connection.rivals = Some(listener.map_err(|e| e.to_string())?);
        }
        let (router, shutdown) = (Arc::clone(&self.router), self.shutdown.clone());
        let ends = &mut self.ends;
        let Earlier {
            negotiation,
            resumed,
            ..
        } = before;
        Ok(server::serve(connection, negotiation, router, shutdown, ends, resumed).await)
    }
}

/// What comes when nobody is served.
enum Next {
    Client(Client),
    /// The server is to end.
    Over,
    /// A background thread has brought the process to its end.
    Fell(End),
}
