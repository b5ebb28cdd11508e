//! `~/.topup/sessions.json`: how named sessions are made, by name. Shared by all servers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::home;

/// How a named session is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recipe {
    /// An absolute path: what is `#use`d first.
    pub prewarm: Option<PathBuf>,
    /// How many sessions there are, with the siblings; 0 counts as 1.
    pub pool: usize,
    /// For agents: what the session is for.
    pub description: Option<String>,
    /// What another version of topup has written here.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What is to be changed of a recipe; the rest stays.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub prewarm: Option<PathBuf>,
    pub pool: Option<usize>,
    pub description: Option<String>,
}

impl Recipe {
    /// As `changes` says.
    pub fn change(&mut self, changes: &Changes) {
        let Changes {
            prewarm,
            pool,
            description,
        } = changes.clone();
        self.prewarm = prewarm.or(self.prewarm.take());
        self.pool = pool.unwrap_or(self.pool).max(1);
        self.description = description.or(self.description.take());
    }
}

pub type Recipes = BTreeMap<String, Recipe>;

/// The recipes that there are. A file that cannot be understood counts as none here.
pub fn read() -> Recipes {
    let recipes = folder().and_then(|folder| parse(&folder.join(NAME)));
    recipes.ok().flatten().unwrap_or_default()
}

/// Changes the recipe `name`, which is made if it is not there; returns it, and a warning if
/// the file was damaged, which is then moved aside.
pub fn change(name: &str, changes: &Changes) -> io::Result<(Recipe, Option<String>)> {
    edit(|recipes| {
        let recipe = recipes.entry(name.to_string()).or_default();
        recipe.change(changes);
        recipe.clone()
    })
}

/// Forgets the recipe `name`.
pub fn forget(name: &str) -> io::Result<()> {
    edit(|recipes| recipes.remove(name)).map(drop)
}

const NAME: &str = "sessions.json";

/// Reads, edits and writes the file, while no other server does.
fn edit<T>(change: impl FnOnce(&mut Recipes) -> T) -> io::Result<(T, Option<String>)> {
    let folder = folder()?;
    let path = folder.join(NAME);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(format!("{NAME}.lock")))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let (before, warning) = match parse(&path) {
        Ok(recipes) => (recipes.unwrap_or_default(), None),
        Err(error) => {
            let aside = home::move_aside(&path)?;
            let warning = format!(
                "{} could not be read ({error}); it is now {}, and a new one was begun",
                path.display(),
                aside.display()
            );
            log::warn!("{warning}");
            (Recipes::new(), Some(warning))
        }
    };
    let mut recipes = before.clone();
    let result = change(&mut recipes);
    if recipes != before || warning.is_some() {
        home::store(&path, &serde_json::to_vec_pretty(&recipes)?)?;
    }
    Ok((result, warning))
}

/// `None` if there is no file.
fn parse(path: &Path) -> io::Result<Option<Recipes>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn folder() -> io::Result<PathBuf> {
    let folder = home::home()?.join(".topup");
    home::make(&folder)?;
    Ok(folder)
}
