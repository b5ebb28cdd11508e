//! The service's way into the next image of its process, and there.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Client, Service};
use crate::bytes::Bytes;
use crate::protocol::jsonrpc::Id;
use crate::protocol::mcp::Negotiation;
use crate::reexec::{self, Handover, Unheard, keep_open};
use crate::server::{self, Rest, Resumed, Served};
use crate::socket::Socket;
use crate::{descriptors, orphans, process_group, transport};

/// What the image of this process before this one left.
pub struct Before {
    pub handover: Handover,
    pub unread: Vec<u8>,
    pub unsent: Vec<u8>,
    pub log: Vec<u8>,
}

/// What a connection begins with: nothing, unless it began in another image.
#[derive(Default)]
pub struct Earlier {
    pub unread: Vec<u8>,
    pub unsent: Vec<u8>,
    pub negotiation: Negotiation,
    pub resumed: Resumed,
}

impl Service<'_> {
    /// Goes on from what the image before this one left.
    pub(super) async fn resume(&mut self, before: Before) -> Result<(), String> {
        let Before {
            handover,
            unread,
            unsent,
            ..
        } = before;
        let work = self.router.begin_work();
        self.router.local().begin_recovery(&handover, work).await;
        let resumed = self.router.registry().resume(handover.sessions);
        resumed.map_err(|e| format!("going on with the named sessions: {e}"))?;
        self.router.hosts().resume(handover.hosts);
        orphans::take_strays();
        for Unheard { lines, calls } in handover.unheard {
            self.serve_nobody(&lines.0, calls).await;
        }
        let negotiation = Negotiation::resume(handover.revision.as_deref(), handover.is_topup);
        self.before = Earlier {
            unread,
            unsent,
            negotiation,
            resumed: Resumed::new(handover.calls, handover.begun),
        };
        self.earlier_ends = handover.ends;
        Ok(())
    }

    /// Begins calls of a client that has gone.
    async fn serve_nobody(&mut self, lines: &[u8], calls: Vec<(Id, Vec<Bytes>)>) {
        let connection = transport::of_nobody(lines);
        let (router, shutdown) = (Arc::clone(&self.router), self.shutdown.clone());
        let resumed = Resumed::new(calls, Vec::new());
        // An end that comes now is for who is served next.
        let (_never, mut ends) = mpsc::unbounded_channel();
        let negotiation = Negotiation::default();
        let served = server::serve(
            connection,
            negotiation,
            router,
            shutdown,
            &mut ends,
            resumed,
        );
        if let Served::Done(left) = served.await {
            self.left_behind.extend(left);
        }
    }

    /// Becomes the next image of this process. Returns only if that fails: why.
    pub(super) fn go_on(
        &mut self,
        client: Option<&Client>,
        socket: Option<&Socket>,
        rest: Rest,
    ) -> String {
        let failed = match self.hand_over(client, socket, &rest) {
            Ok((handover, log)) => {
                process_group::wait_for(process_group::end_all());
                self.beginning
                    .again(&handover, [&rest.unread, &rest.unsent, &log])
            }
            Err(error) => error,
        };
        format!("{}, and going on failed: {failed}", rest.end)
    }

    fn hand_over(
        &mut self,
        client: Option<&Client>,
        socket: Option<&Socket>,
        rest: &Rest,
    ) -> io::Result<(Handover, Vec<u8>)> {
        let evaluator = self.router.local().evaluator();
        let mut end = rest.end.to_string();
        let no_log = evaluator.no_log();
        let log = match evaluator.log() {
            Ok((log, _)) => log,
            Err(_) if no_log.is_some() => Vec::new(),
            Err(error) => {
                end += &format!("; {error}");
                Vec::new()
            }
        };
        self.earlier_ends.push(reexec::now());
        descriptors::none_over_exec();
        let open = |client: &Client| -> io::Result<_> {
            Ok([
                keep_open(client.input.as_fd())?,
                keep_open(client.output.as_fd())?,
            ])
        };
        let listener = |socket: &Socket| -> io::Result<_> {
            Ok((keep_open(socket.as_fd())?, socket.path().to_path_buf()))
        };
        let left_behind = std::mem::take(&mut self.left_behind).into_iter();
        let rests = left_behind.filter_map(|left| left.rest(rest.end));
        let unheard = rests.map(|rest| Unheard {
            lines: Bytes(rest.unread),
            calls: rest.calls,
        });
        let handover = Handover {
            unheard: unheard.collect(),
            log_lines: keep_open(self.log_lines.as_fd())?,
            client: client.map(open).transpose()?,
            listener: socket.map(listener).transpose()?,
            revision: rest
                .negotiation
                .agreed()
                .map(|revision| revision.name().into()),
            calls: rest.calls.clone(),
            begun: rest.begun.clone(),
            sessions: self.router.registry().leave()?,
            hosts: self.router.hosts().leave(),
            is_topup: rest.negotiation.is_topup(),
            end,
            ends: self.earlier_ends.clone(),
            no_log,
            skipped: evaluator.skipped(),
            lengths: [rest.unread.len(), rest.unsent.len(), log.len()].map(|length| length as u64),
        };
        Ok((handover, log))
    }
}
