//! `~/.topup/sessions.json`: how named sessions are made, by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kept::{Entry, Kept};
use super::lock;
use crate::tools::{self, Failure, Phase};

/// How a named session is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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

const FILE: Kept<Recipe> = Kept::new("sessions.json");

/// The recipes that there are: in the file, and in this server's memory what the file does
/// not take. Owned by the registry.
#[derive(Default)]
pub struct Recipes {
    pub unkept: Mutex<BTreeMap<String, Recipe>>,
}

impl Recipes {
    pub fn get(&self, name: &str) -> Option<Recipe> {
        let unkept = lock(&self.unkept).get(name).cloned();
        unkept.or_else(|| FILE.read().remove(name))
    }

    pub fn all(&self) -> BTreeMap<String, Recipe> {
        let mut recipes = FILE.read();
        recipes.extend(lock(&self.unkept).clone());
        recipes
    }

    /// Whether the file has anything of `name`, of use or not.
    pub fn is_filed(&self, name: &str) -> bool {
        FILE.holds(name)
    }

    /// What the file has of `name` that is not used, and why.
    pub fn refusal(&self, name: &str) -> Option<String> {
        FILE.refused(name)
    }

    /// The same of all names.
    pub fn refused(&self) -> Vec<String> {
        FILE.all_refused()
    }

    pub async fn forget(&self, name: &str) -> Result<(), Failure> {
        lock(&self.unkept).remove(name);
        if !FILE.holds(name) {
            return Ok(());
        }
        FILE.forget(name).await.map_err(|error| {
            let text =
                format!("it stays in ~/.topup/sessions.json, which was not written: {error}");
            Failure::new(Phase::Arguments, text)
        })
    }

    /// Keeps how the session `name` is made: as `changes` say in the file, which other servers
    /// may have changed, or all of `recipe` in memory. Returns what is kept, and a warning.
    pub async fn write(
        &self,
        name: &str,
        recipe: Recipe,
        changes: Changes,
    ) -> (Recipe, Option<String>) {
        let unkept = lock(&self.unkept).get(name).cloned();
        let change = move |kept: &mut Recipe| {
            if let Some(recipe) = unkept {
                *kept = recipe;
            }
            kept.change(&changes);
        };
        match FILE.change(name, change).await {
            Ok(written) => {
                lock(&self.unkept).remove(name);
                written
            }
            Err(error) => {
                let warning = format!(
                    "how session {name:?} is made could not be kept in ~/.topup/sessions.json: \
                     {error}; this server knows it until it ends"
                );
                log::warn!("{warning}");
                lock(&self.unkept).insert(name.to_string(), recipe.clone());
                (recipe, Some(warning))
            }
        }
    }
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

impl Entry for Recipe {
    fn read(name: &str, fields: Map<String, Value>) -> Result<Recipe, String> {
        let (given, rest) = apart(fields, &["prewarm", "pool", "description"]);
        let prewarm = given.get("prewarm").and_then(Value::as_str);
        if let Some(path) = prewarm
            && !Path::new(path).is_absolute()
            && !Path::new(path).starts_with("~")
        {
            return Err(format!("prewarm must be an absolute path, not {path:?}"));
        }
        let mut recipe = Recipe::default();
        recipe.change(&tools::check_session(name, given)?);
        Ok(Recipe { rest, ..recipe })
    }
}

/// The fields that are ours, and the rest.
pub fn apart(
    fields: Map<String, Value>,
    ours: &[&str],
) -> (Map<String, Value>, Map<String, Value>) {
    let is_ours = |(name, _): &(String, Value)| ours.contains(&name.as_str());
    fields.into_iter().partition(is_ours)
}
