//! The named sessions of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::pool::Pool;
use super::recipes::{Changes, Recipes};
use super::starts::{Start, Starts};
use super::{Frozen, Launcher, Recipe, Session, Ticket, lock};
use crate::end::End;
use crate::evaluator::Worker;
use crate::router::LOCAL;
use crate::tools::{Failure, Phase};

/// Owned by the router.
pub struct Registry {
    pub(super) launcher: Arc<Launcher>,
    pub(super) frozen: Arc<Frozen>,
    pub(super) pools: Mutex<BTreeMap<String, Arc<Pool>>>,
    pub(super) recipes: Recipes,
    /// One lock a name: who starts or stops a session of that name.
    changing: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    starts: Starts,
}

/// A session that is up.
pub struct Started {
    pub pool: Arc<Pool>,
    /// Whether it was not before.
    pub is_new: bool,
    /// Of the file of recipes.
    pub warning: Option<String>,
}

/// One line of the list of sessions.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub session: String,
    pub live: bool,
    pub busy: bool,
    pub pid: Option<i32>,
    pub prewarm: Option<PathBuf>,
    pub pool: usize,
    pub description: Option<String>,
}

impl Listed {
    /// One that is not live.
    fn known(session: String, recipe: &Recipe) -> Listed {
        Listed {
            session,
            live: false,
            busy: false,
            pid: None,
            prewarm: recipe.prewarm.clone(),
            pool: recipe.pool,
            description: recipe.description.clone(),
        }
    }

    /// Whether it is one of those that come and go with another.
    pub fn is_sibling(&self) -> bool {
        self.session.contains('.')
    }
}

impl Registry {
    pub fn new(launcher: Launcher) -> Registry {
        Registry {
            launcher: Arc::new(launcher),
            frozen: Arc::default(),
            pools: Mutex::default(),
            recipes: Recipes::default(),
            changing: Mutex::default(),
            starts: Starts::default(),
        }
    }

    /// The live session `name`.
    pub fn find(&self, name: &str) -> Option<Arc<Session>> {
        let mut live = self.live().into_iter();
        live.find(|session| session.name() == name)
    }

    fn live(&self) -> Vec<Arc<Session>> {
        let pools = lock(&self.pools);
        let members = pools.values().flat_map(|pool| &pool.members);
        members.cloned().collect()
    }

    /// Why there is no live session `name`, and what to do.
    pub fn missing(&self, name: &str) -> String {
        if self.is_starting(name) {
            return format!(
                "session {name:?} is being started; call it when start_local_session has answered, \
                 or end the start with cancel"
            );
        }
        if self.known().iter().any(|known| known == name) {
            return format!("session {name:?} is not running; start_local_session brings it up");
        }
        let live = self.live();
        let live = live.iter().map(|session| session.name());
        let names: Vec<&str> = [LOCAL].into_iter().chain(live).collect();
        format!(
            "no session {name:?}; known: {}; start_local_session makes one",
            names.join(", ")
        )
    }

    /// Whether the session `name` is about to be live.
    pub fn is_starting(&self, name: &str) -> bool {
        self.starts.are_on(name)
    }

    /// Ends the start of the session `name`. False if it is not being started.
    pub fn cancel_start(&self, name: &str) -> bool {
        self.starts.end(name)
    }

    /// Changes how the session `name` is made, and brings it up unless it is.
    pub async fn start(
        &self,
        name: &str,
        changes: Changes,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        let start = self.starts.begin(name, ticket);
        let _alone = start.unless_ended(self.alone_with(name)).await?;
        if let Some(pool) = lock(&self.pools).get(name) {
            return Ok(Started {
                pool: Arc::clone(pool),
                is_new: false,
                warning: None,
            });
        }
        let mut recipe = self.recipe(name).unwrap_or_default();
        recipe.change(&changes);
        let pool = self.bring_up(name, &recipe, &start).await?;
        // The session is up, whatever becomes of the file.
        let written = self.recipes.write(name, recipe, changes);
        let warning = match start.unless_ended(written).await {
            Ok((_, warning)) => warning,
            Err(_) => Some("it was cancelled before its recipe was kept".to_string()),
        };
        Ok(Started {
            pool,
            is_new: true,
            warning,
        })
    }

    /// How the session `name` is made, if that is known.
    fn recipe(&self, name: &str) -> Option<Recipe> {
        let known = self.recipes.get(name);
        known.or_else(|| Some(lock(&self.pools).get(name)?.recipe.clone()))
    }

    /// Ends the session `name` and brings it up again as its recipe says now.
    pub async fn restart(&self, name: &str, ticket: &Ticket) -> Result<Started, Failure> {
        self.starts.end(name);
        let start = self.starts.begin(name, ticket);
        let _alone = start.unless_ended(self.alone_with(name)).await?;
        let Some(recipe) = self.recipe(name) else {
            return Err(self.unknown(name));
        };
        self.end(name, End::Restarted).await;
        Ok(Started {
            pool: self.bring_up(name, &recipe, &start).await?,
            is_new: true,
            warning: None,
        })
    }

    async fn bring_up(
        &self,
        name: &str,
        recipe: &Recipe,
        start: &Start<'_>,
    ) -> Result<Arc<Pool>, Failure> {
        let pool = Pool::start(name, recipe, &self.launcher, &self.frozen);
        let pool = Arc::new(start.unless_ended(pool).await??);
        lock(&self.pools).insert(name.to_string(), Arc::clone(&pool));
        Ok(pool)
    }

    /// Ends the session `name` and its siblings, also while they are being started. With
    /// `forget` nothing is left of it.
    pub async fn stop(&self, name: &str, forget: bool, ticket: &Ticket) -> Result<bool, Failure> {
        let was_starting = self.starts.end(name);
        let _alone = unless_withdrawn(ticket, self.alone_with(name)).await?;
        let is_known = self.recipes.is_filed(name) || self.recipe(name).is_some();
        if !was_starting && !is_known {
            return Err(self.unknown(name));
        }
        let stopped = self.end(name, End::Stopped).await || was_starting;
        if forget {
            unless_withdrawn(ticket, self.recipes.forget(name)).await??;
        }
        Ok(stopped)
    }

    /// What runs there is told to stop, and its processes are gone when this returns.
    async fn end(&self, name: &str, end: End) -> bool {
        let pool = lock(&self.pools).remove(name);
        let Some(pool) = pool else {
            return false;
        };
        for session in &pool.members {
            session.stop(end).await;
        }
        true
    }

    /// Changes how the session `name` is made from its next start on.
    pub async fn update(
        &self,
        name: &str,
        changes: Changes,
        ticket: &Ticket,
    ) -> Result<(Recipe, Option<String>), Failure> {
        let _alone = unless_withdrawn(ticket, self.alone_with(name)).await?;
        let Some(mut recipe) = self.recipe(name) else {
            return Err(self.unknown(name));
        };
        recipe.change(&changes);
        unless_withdrawn(ticket, self.recipes.write(name, recipe, changes)).await
    }

    /// Every session that is live or has a recipe.
    pub fn list(&self) -> Vec<Listed> {
        let pools = lock(&self.pools).clone();
        let mut listed = Vec::new();
        for pool in pools.values() {
            listed.extend(pool.members.iter().map(|session| Listed {
                live: session.evaluator().is_alive(),
                busy: session.is_busy(),
                pid: session.evaluator().worker().map(Worker::pid),
                ..Listed::known(session.name().to_string(), &pool.recipe)
            }));
        }
        let mut recipes = self.recipes.all();
        recipes.retain(|name, _| !pools.contains_key(name));
        listed.extend(
            recipes
                .into_iter()
                .map(|(name, recipe)| Listed::known(name, &recipe)),
        );
        listed
    }

    /// What the file of recipes has that is not used, and why.
    pub fn refused(&self) -> Vec<String> {
        self.recipes.refused()
    }

    fn unknown(&self, name: &str) -> Failure {
        let known = self.known();
        let problem = match self.recipes.refusal(name) {
            Some(refusal) => refusal,
            None if known.is_empty() => {
                format!("no session {name:?}; there is none; start_local_session makes one")
            }
            None => format!("no session {name:?}; known: {}", known.join(", ")),
        };
        Failure::new(Phase::Arguments, problem)
    }

    /// The names of the sessions that are live or have a recipe, without siblings.
    fn known(&self) -> Vec<String> {
        let mut known: Vec<String> = lock(&self.pools).keys().cloned().collect();
        known.extend(self.recipes.all().into_keys());
        known.sort();
        known.dedup();
        known
    }

    async fn alone_with(&self, name: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let changing = Arc::clone(lock(&self.changing).entry(name.to_string()).or_default());
        changing.lock_owned().await
    }
}

/// Waits for others, unless the client takes the call back.
async fn unless_withdrawn<T>(ticket: &Ticket, wait: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::select! {
        biased;
        _ = ticket.cancel.cancelled() => Err(Failure::new(Phase::Route, "cancelled while it waited")),
        done = wait => Ok(done),
    }
}
