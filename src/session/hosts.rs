//! The remote hosts of a server, and `~/.topup/hosts.json`: what is known of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::host::{HostLeft, STOPPED};
use super::kept::Kept;
use super::known::{Known, check, check_socket};
use super::ssh::Ssh;
use super::{Host, Ticket, lock};
use crate::reexec::Beginning;
use crate::router::LOCAL;
use crate::settings::{Remote, Transfer};
use crate::tools::{Failure, Phase};

const HOSTS: Kept<Known> = Kept::new("hosts.json");

const DEFAULT_SOCKET: &str = "~/.topup/sockets/topup.sock";

/// Owned by the router.
pub struct Hosts {
    ssh: Arc<Ssh>,
    transfer: Transfer,
    registered: Mutex<BTreeMap<String, Arc<Host>>>,
    /// Those that were stopped, by name and socket: what they are to be found as again.
    stopped: Mutex<BTreeMap<(String, String), HostLeft>>,
    /// One lock a name: who writes down what has become of it.
    changing: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// One line of the list of hosts.
#[derive(Debug, Serialize)]
pub struct HostListed {
    pub host: String,
    pub live: bool,
    pub description: Option<String>,
    pub os: Option<String>,
    pub remote_socket: Option<String>,
}

/// What the next image of the server's process needs of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostsLeft {
    registered: Vec<HostLeft>,
    stopped: Vec<HostLeft>,
}

impl Hosts {
    pub fn new(beginning: Beginning, remote: Remote, transfer: Transfer) -> Hosts {
        Hosts {
            ssh: Arc::new(Ssh::new(beginning, remote)),
            transfer,
            registered: Mutex::default(),
            stopped: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// The registered host `name`.
    pub fn find(&self, name: &str) -> Result<Arc<Host>, Failure> {
        let registered = lock(&self.registered);
        if let Some(host) = registered.get(name) {
            return Ok(Arc::clone(host));
        }
        let names: Vec<&str> = [LOCAL]
            .into_iter()
            .chain(registered.keys().map(String::as_str))
            .collect();
        let known = HOSTS.read().contains_key(name);
        let problem = match HOSTS.refused(name) {
            _ if known => format!("host {name:?} is not connected; start_session connects it"),
            Some(refusal) => refusal,
            None => format!(
                "no host {name:?}; known: {}; start_session connects one",
                names.join(", ")
            ),
        };
        Err(Failure::new(Phase::Route, problem))
    }

    /// Connects to a host unless it is connected; also returns whether it was not, and a
    /// warning.
    pub async fn start(
        &self,
        name: &str,
        socket: Option<String>,
        ticket: &Ticket,
    ) -> Result<(Arc<Host>, bool, Option<String>), Failure> {
        check(name)?;
        let asked = socket.clone().unwrap_or_else(|| known_socket(name));
        check_socket(&asked)?;
        let host = self.register(name, &asked, socket.is_some())?;
        let connected = host.connect(&ticket.cancel).await;
        if connected.is_err() && !host.was_reached() && !host.is_wanted() {
            self.unregister(&host);
        }
        let (_, is_new) = connected?;
        let _alone = self.alone_with(name).await;
        // It is connected, whatever becomes of the file.
        let is_registered = is_in(&lock(&self.registered), &host);
        let warning = match is_registered {
            true => self
                .write(name, move |known| {
                    known.remote_socket = socket.or(known.remote_socket.take());
                })
                .await
                .map_or_else(|failure| Some(failure.error), |(_, warning)| warning),
            // It was stopped meanwhile, and may be forgotten.
            false => None,
        };
        Ok((host, is_new, warning))
    }

    /// The host `name`, which calls can name from now on; `is_explicit` if no other socket will
    /// do.
    fn register(&self, name: &str, asked: &str, is_explicit: bool) -> Result<Arc<Host>, Failure> {
        let registered = &mut *lock(&self.registered);
        if let Some(host) = registered.get(name) {
            if host.asked() == asked || !is_explicit {
                return Ok(Arc::clone(host));
            }
            if host.is_wanted() {
                let problem = format!(
                    "{name} is connected to {}; stop_session first, to go to another socket",
                    host.asked()
                );
                return Err(Failure::new(Phase::Connect, problem));
            }
            self.set_aside(host);
        }
        let left = lock(&self.stopped).remove(&(name.to_string(), asked.to_string()));
        let left = left.unwrap_or_else(|| HostLeft::new(name, asked));
        let host = Arc::new(Host::resume(left, Arc::clone(&self.ssh)));
        registered.insert(name.to_string(), Arc::clone(&host));
        Ok(host)
    }

    /// Leaves a host, and keeps what it is to be found as again.
    fn set_aside(&self, host: &Host) {
        let left = host.leave(STOPPED);
        if host.was_reached() {
            lock(&self.stopped).insert(left.key(), left);
        }
    }

    fn unregister(&self, host: &Arc<Host>) {
        let registered = &mut *lock(&self.registered);
        if is_in(registered, host) {
            registered.remove(host.name());
        }
    }

    /// Ends the connection to a host. With `forget` nothing is left of it, with `end` the
    /// topup there ends as well.
    pub async fn stop(
        &self,
        name: &str,
        forget: bool,
        end: bool,
        ticket: &Ticket,
    ) -> Result<bool, Failure> {
        let registered = lock(&self.registered).get(name).cloned();
        let host = match registered {
            Some(host) => Some(host),
            None if !HOSTS.holds(name) => return self.find(name).map(|_| false),
            // What an earlier connection has left there.
            None if end => Some(self.register(name, &known_socket(name), false)?),
            None => None,
        };
        let mut stopped = false;
        if let Some(host) = &host {
            stopped = end || host.is_live();
            if end {
                let ended = host.end_there(&ticket.cancel).await;
                if ended.is_ok() || !host.was_reached() {
                    self.unregister(host);
                }
                ended?;
                host.leave(STOPPED);
            } else {
                self.unregister(host);
                self.set_aside(host);
            }
        }
        if forget {
            lock(&self.stopped).retain(|(stopped, _), _| stopped != name);
            let _alone = self.alone_with(name).await;
            self.forget(name).await?;
        }
        Ok(stopped)
    }

    /// Changes what is known of a host.
    pub async fn update(
        &self,
        name: &str,
        description: Option<String>,
        os: Option<String>,
    ) -> Result<(Known, Option<String>), Failure> {
        if !lock(&self.registered).contains_key(name) && !HOSTS.read().contains_key(name) {
            self.find(name)?;
        }
        self.write(name, move |known| {
            known.description = description.or(known.description.take());
            known.os = os.or(known.os.take());
        })
        .await
    }

    async fn alone_with(&self, name: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let changing = Arc::clone(lock(&self.changing).entry(name.to_string()).or_default());
        changing.lock_owned().await
    }

    async fn write(
        &self,
        name: &str,
        change: impl FnOnce(&mut Known) + Send + 'static,
    ) -> Result<(Known, Option<String>), Failure> {
        HOSTS.change(name, change).await.map_err(of_file)
    }

    async fn forget(&self, name: &str) -> Result<(), Failure> {
        HOSTS.forget(name).await.map_err(of_file)
    }

    /// Every host that is registered or known.
    pub fn list(&self) -> Vec<HostListed> {
        let registered = lock(&self.registered).clone();
        let mut known = HOSTS.read();
        for name in registered.keys() {
            known.entry(name.clone()).or_default();
        }
        let listed = known.into_iter().map(|(host, known)| HostListed {
            live: registered.get(&host).is_some_and(|host| host.is_live()),
            host,
            description: known.description,
            os: known.os,
            remote_socket: known.remote_socket,
        });
        listed.collect()
    }

    /// What is known of hosts and not used, and why.
    pub fn refused(&self) -> Vec<String> {
        HOSTS.all_refused()
    }

    pub fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// Ends all connections; returns what the next image of this process is to connect to
    /// again.
    pub fn leave(&self) -> HostsLeft {
        let registered = std::mem::take(&mut *lock(&self.registered));
        let stopped = std::mem::take(&mut *lock(&self.stopped));
        HostsLeft {
            registered: registered
                .values()
                .map(|host| host.leave("the server ends"))
                .collect(),
            stopped: stopped.into_values().collect(),
        }
    }

    /// Goes on with what the image before this one left.
    pub fn resume(&self, left: HostsLeft) {
        for left in left.registered {
            let host = Host::resume(left, Arc::clone(&self.ssh));
            lock(&self.registered).insert(host.name().to_string(), Arc::new(host));
        }
        let stopped = left.stopped.into_iter().map(|left| (left.key(), left));
        lock(&self.stopped).extend(stopped);
    }
}

/// Whether it is this one that is registered by its name.
fn is_in(registered: &BTreeMap<String, Arc<Host>>, host: &Arc<Host>) -> bool {
    let found = registered.get(host.name());
    found.is_some_and(|found| Arc::ptr_eq(found, host))
}

/// The socket that a host was asked for by last, or the usual one.
fn known_socket(name: &str) -> String {
    let known = HOSTS.read().remove(name).unwrap_or_default();
    known.remote_socket.unwrap_or_else(|| DEFAULT_SOCKET.into())
}

fn of_file(error: io::Error) -> Failure {
    let text = format!("keeping what is known of the host in ~/.topup/hosts.json: {error}");
    Failure::new(Phase::Arguments, text)
}
