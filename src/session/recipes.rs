//! `~/.topup/sessions.json`: how named sessions are made, by name.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kept::Kept;

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

/// The recipes that there are.
pub const RECIPES: Kept<Recipe> = Kept::new("sessions.json");

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
