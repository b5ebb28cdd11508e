//! The calls that go to a host: sent in the order in which they came, each with its answer
//! or what became of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::link::{Link, said};
use super::peer::Lost;
use super::{Host, STOPPED, Ticket, lock};
use crate::tools::{Answer, Failure, Phase};

/// A call's place among those that go to a host: none is sent that came after it while it
/// has this.
pub struct Place {
    link: Arc<Link>,
    /// The tool that was called here.
    called: &'static str,
    _line: OwnedMutexGuard<()>,
}

/// What a connection has to be made again when its calls wait to be told.
const RETURN: Duration = Duration::from_secs(10);

impl Host {
    /// Calls a tool there, with arguments that it has checked itself; a connection that has
    /// ended is made again, once.
    pub async fn call(
        self: &Arc<Self>,
        tool: &'static str,
        arguments: Map<String, Value>,
        ticket: &Ticket,
    ) -> Result<Answer, Failure> {
        let place = self.place(tool, ticket).await?;
        let answer = self.call_from(place, tool, arguments, ticket).await?;
        Ok(self.noticing(answer, ticket))
    }

    /// Waits for the place of a call of `called`.
    pub async fn place(
        self: &Arc<Self>,
        called: &'static str,
        ticket: &Ticket,
    ) -> Result<Place, Failure> {
        let (link, _) = self.connect(&ticket.cancel).await?;
        let line = tokio::select! {
            biased;
            line = Arc::clone(&self.line).lock_owned() => line,
            _ = ticket.cancel.cancelled() => return Err(self.failure("cancelled")),
        };
        Ok(Place {
            link,
            called,
            _line: line,
        })
    }

    /// Calls a tool from that place; what must be told of the host is left to the caller.
    pub async fn call_from(
        self: &Arc<Self>,
        place: Place,
        tool: &str,
        arguments: Map<String, Value>,
        ticket: &Ticket,
    ) -> Result<Answer, Failure> {
        let (link, called) = (Arc::clone(&place.link), place.called);
        let ran = format!("while {called} ran there");
        let (result, when) = match link.peer.begin_call(tool, arguments) {
            Ok(sent) => {
                ticket.send_to(&self.name);
                drop(place);
                (link.peer.answer(tool, sent, &ticket.cancel).await, ran)
            }
            Err(lost) => (Err(lost), format!("before {called} was sent there")),
        };
        match result {
            Ok(answer) => {
                lock(&self.state).log = link.peer.log();
                Ok(answer)
            }
            Err(Lost::Refused(problem)) => {
                let problem = format!("{}: {called} failed there: {problem}", self.name);
                Err(Failure::new(Phase::Handshake, problem))
            }
            Err(Lost::Cancelled) => Err(self.failure("cancelled")),
            Err(Lost::Silent) => {
                let silent = "the topup there was asked whether it is there and has said nothing \
                    for 30 s: it is stopped, or has no time; the connection was ended, and \
                    what ran may go on there";
                Err(self.failure(silent))
            }
            Err(Lost::Ended) => Err(self.lost(&when, &link, ticket).await),
        }
    }

    /// What a call comes to whose connection has ended. Unless that was the network's end, it
    /// is made again at once, to tell what became of the session.
    async fn lost(self: &Arc<Self>, when: &str, link: &Arc<Link>, ticket: &Ticket) -> Failure {
        let words = link.last_words().await;
        let lost = format!("the connection was lost {when}");
        if !link.lost_its_way() {
            let _ = timeout(RETURN, self.connect(&ticket.cancel)).await;
        }
        let then = match (self.is_live(), self.notice(ticket)) {
            (_, Some(notice)) => notice,
            (true, None) => "it is up again, and what ran may go on there".to_string(),
            (false, None) if self.connection.is_stopped() => {
                format!("{STOPPED}, and what ran may go on there")
            }
            (false, None) => {
                "what ran may go on there, and the next call connects again".to_string()
            }
        };
        self.failure(&format!("{}; {then}", said(&lost, &words)))
    }

    /// What must be told of the host; once, and not to a call that is taken back.
    pub fn notice(&self, ticket: &Ticket) -> Option<String> {
        match ticket.cancel.is_cancelled() {
            true => None,
            false => lock(&self.state).notice.take(),
        }
    }

    /// With the notice, if there is one.
    fn noticing(&self, answer: Answer, ticket: &Ticket) -> Answer {
        let Some(notice) = self.notice(ticket) else {
            return answer;
        };
        let Ok(Value::Object(mut payload)) = serde_json::from_str(&answer.payload) else {
            return answer;
        };
        let text = match payload.get("notice").and_then(Value::as_str) {
            Some(theirs) => format!("{notice}\n{theirs}"),
            None => notice,
        };
        payload.insert("notice".into(), text.into());
        Answer::new(&payload, answer.is_error)
    }
}

impl Place {
    /// The largest file that the host takes and gives.
    pub fn transfer_max(&self) -> u64 {
        self.link.transfer_max
    }
}
