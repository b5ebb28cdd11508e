//! What ends things on a host: the evaluation that runs, the connection, the topup there.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connection::Cancellable;
use super::link::Link;
use super::peer::Lost;
use super::{Host, STOPPED, lock};
use crate::tools::{Answer, Failure, Phase, cancelled};

/// What a topup has to end.
const ENDING: Duration = Duration::from_secs(10);
/// What it has to say whether it has cancelled anything.
const CANCELLING: Duration = Duration::from_secs(5);

impl Host {
    /// Interrupts what runs there, also if the connection to it was lost, or ends an attempt
    /// to connect. Waits for neither.
    pub async fn cancel(self: &Arc<Self>) -> Result<Answer, Failure> {
        let cancellable = self.connection.cancellable();
        if let Cancellable::Attempt = cancellable {
            let why = self.failure("cancelled while connecting");
            self.connection.end(&why);
            return Ok(cancelled(true));
        }
        let never = CancellationToken::new();
        let asked = async {
            let link = match cancellable {
                Cancellable::Link(link) => link,
                _ => self.connect(&never).await?.0,
            };
            let answer = link.peer.call("cancel", Map::new(), &never).await;
            answer.map_err(|lost| match lost {
                Lost::Refused(problem) => {
                    let problem = format!("{}: cancel failed there: {problem}", self.name);
                    Failure::new(Phase::Handshake, problem)
                }
                _ => self.failure("the connection was lost; what ran may go on there"),
            })
        };
        let answer = timeout(CANCELLING, asked).await;
        answer.unwrap_or_else(|_| {
            Err(self.failure(&format!(
                "it has not answered for {} s; what runs there may go on. restart_session fails \
                 the calls that wait, and connects anew",
                CANCELLING.as_secs()
            )))
        })
    }

    /// Ends the topup there, whatever it does.
    pub async fn end_there(&self, cancel: &CancellationToken) -> Result<(), Failure> {
        let link = match self.connection.cancellable() {
            Cancellable::Link(link) => link,
            // What it held is not needed: without the phrase log.
            _ => {
                self.connection.end(&self.failure(STOPPED));
                let opened = Link::open(&self.ssh, &self.name, &self.asked, cancel).await?;
                lock(&self.state).process = Some(opened.1.process);
                Arc::new(opened.0)
            }
        };
        let ended = async {
            let told = link.peer.call("_end", Map::new(), cancel).await;
            link.peer.gone().await;
            // The end of the connection alone may be the network's.
            told.is_ok() || !link.lost_its_way()
        };
        let ended = tokio::select! {
            ended = timeout(ENDING, ended) => ended,
            _ = cancel.cancelled() => return Err(self.failure("cancelled")),
        };
        match ended {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let lost = "the connection was lost before the topup there had ended; it may go on";
                return Err(self.failure(lost));
            }
            Err(_) => {}
        }
        let process = lock(&self.state).process.clone().unwrap_or_default();
        Err(self.failure(&format!(
            "the topup there, process {}, was told to end and has not for {} s; it may be \
             stopped: kill it there. stop_session without end ends the connection alone",
            process.split('-').next().unwrap_or_default(),
            ENDING.as_secs()
        )))
    }
}
