//! A named session and its siblings `<name>.1`, `<name>.2`, …, which are copies of its
//! process as it was when it had been prewarmed.

use std::sync::Arc;

use super::named::{Named, prewarmed};
use super::{Frozen, Launcher, Recipe, Session};
use crate::evaluator::Evaluator;
use crate::tools::Failure;

/// Live sessions that were made from one recipe. Their processes end with it.
pub struct Pool {
    pub recipe: Recipe,
    /// The first one is the session that the pool is named after.
    pub members: Vec<Arc<Session>>,
    /// What they are copies of.
    pub template: Option<Arc<Evaluator>>,
    /// Why the siblings are no copies, if they are none.
    pub spawned: Option<String>,
}

impl Pool {
    /// Brings up the sessions of `recipe`. Whatever fails, and if this is dropped, no process
    /// is left.
    pub async fn start(
        name: &str,
        recipe: &Recipe,
        launcher: &Arc<Launcher>,
        frozen: &Arc<Frozen>,
    ) -> Result<Pool, Failure> {
        let fresh = async |name: &str| {
            let prewarm = recipe.prewarm.as_deref();
            prewarmed(launcher, launcher.log(name), prewarm).await
        };
        let (primary, phrases) = fresh(name).await?;
        let primary = Arc::new(primary);
        let mut spawned = None;
        let mut template = None;
        if recipe.pool > 1 {
            match launcher.copy(&primary, None, true).await {
                Ok(copy) => template = Some(Arc::new(copy)),
                Err(reason) => spawned = Some(reason),
            }
        }
        let named = |name: &str, phrases| {
            let (launcher, frozen) = (Arc::clone(launcher), Arc::clone(frozen));
            let prewarm = recipe.prewarm.clone();
            Named::new(
                name.into(),
                launcher,
                frozen,
                prewarm,
                template.clone(),
                Some(phrases),
            )
        };
        let mut members = vec![Arc::new(Session::named(primary, named(name, phrases)))];
        for number in 1..recipe.pool.max(1) {
            let sibling = format!("{name}.{number}");
            let copied = match &template {
                Some(template) => launcher.copy(template, launcher.log(&sibling), true).await,
                None => Err(String::new()),
            };
            let (evaluator, phrases) = match copied {
                Ok(copy) => (copy, phrases),
                Err(reason) => {
                    spawned.get_or_insert(reason);
                    fresh(&sibling).await?
                }
            };
            let named = named(&sibling, phrases);
            members.push(Arc::new(Session::named(Arc::new(evaluator), named)));
        }
        Ok(Pool {
            recipe: recipe.clone(),
            members,
            template,
            spawned,
        })
    }
}
