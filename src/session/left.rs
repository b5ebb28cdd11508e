//! The named sessions, from one image of the server's process to the next.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::frozen::FrozenLeft;
use super::named::Named;
use super::pool::Pool;
use super::{Recipe, Registry, Session, lock};
use crate::bytes::Bytes;
use crate::evaluator::{Evaluator, WorkerLeft};

/// What the next image needs of the named sessions: their processes go on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SessionsLeft {
    pools: Vec<PoolLeft>,
    unkept: BTreeMap<String, Recipe>,
    frozen: Vec<FrozenLeft>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PoolLeft {
    name: String,
    recipe: Recipe,
    spawned: Option<String>,
    template: Option<WorkerLeft>,
    members: Vec<MemberLeft>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MemberLeft {
    name: String,
    worker: WorkerLeft,
    prewarmed: Option<usize>,
    to_restore: Option<Bytes>,
    notice: Option<String>,
}

/// Leaves a worker's process.
pub fn leave(evaluator: &Evaluator) -> io::Result<WorkerLeft> {
    let none = || io::Error::other("it is not a worker");
    evaluator.worker().ok_or_else(none)?.leave()
}

impl Registry {
    pub fn leave(&self) -> io::Result<SessionsLeft> {
        let mut left = SessionsLeft {
            pools: Vec::new(),
            unkept: lock(&self.recipes.unkept).clone(),
            frozen: self.frozen.leave()?,
        };
        for (name, pool) in lock(&self.pools).iter() {
            let template = pool.template.as_deref().map(leave).transpose()?;
            let mut members = Vec::new();
            for session in &pool.members {
                members.push(MemberLeft {
                    name: session.name().into(),
                    worker: leave(&session.evaluator())?,
                    prewarmed: session.named.as_ref().and_then(Named::prewarmed),
                    to_restore: session.named.as_ref().and_then(Named::to_restore),
                    notice: lock(&session.notice).clone(),
                });
            }
            left.pools.push(PoolLeft {
                name: name.clone(),
                recipe: pool.recipe.clone(),
                spawned: pool.spawned.clone(),
                template,
                members,
            });
        }
        Ok(left)
    }

    /// Goes on with what the image before this one left. To be called once, inside the tokio
    /// runtime.
    pub fn resume(&self, left: SessionsLeft) -> io::Result<()> {
        self.frozen.resume(left.frozen, &self.launcher)?;
        *lock(&self.recipes.unkept) = left.unkept;
        for pool in left.pools {
            let template = pool.template.map(|left| self.launcher.resume(left));
            let template = template.transpose()?.map(Arc::new);
            let mut members = Vec::new();
            for member in pool.members {
                let evaluator = self.launcher.resume(member.worker)?;
                let (launcher, frozen) = (Arc::clone(&self.launcher), Arc::clone(&self.frozen));
                let prewarm = pool.recipe.prewarm.clone();
                let named = Named::new(
                    member.name,
                    launcher,
                    frozen,
                    prewarm,
                    template.clone(),
                    member.prewarmed,
                );
                named.set_to_restore(member.to_restore);
                let session = Session::named(Arc::new(evaluator), named);
                *lock(&session.notice) = member.notice;
                members.push(Arc::new(session));
            }
            let resumed = Pool {
                recipe: pool.recipe,
                members,
                template,
                spawned: pool.spawned,
            };
            lock(&self.pools).insert(pool.name, Arc::new(resumed));
        }
        Ok(())
    }
}
