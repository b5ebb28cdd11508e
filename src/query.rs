//! What the toplevel answers to questions about code that it does not run: plain data.

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// A source that was type-checked and not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typechecked {
    /// `earlier` has each phrase's text; there is no value.
    pub outcome: Outcome,
    /// The directives in it, which were not run.
    pub directives: Vec<String>,
}

/// What a name stands for. Twin of `ocaml/lookup.mli`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub name: String,
    pub kind: String,
    /// A value's type scheme; of everything else the declaration.
    pub typ: String,
    pub location: Option<String>,
    pub value_preview: Option<String>,
    /// With odoc's markup.
    pub doc: Option<String>,
    /// Kind and type of what else has the name.
    pub also: Vec<(String, String)>,
    /// While the preview was printed, which is missing then.
    pub interrupted: bool,
}

/// What can be written at a place. Twin of `ocaml/completion.mli`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completions {
    /// Where the name that is completed begins, in bytes of the source.
    pub start: usize,
    /// What is written of it.
    pub prefix: String,
    pub shown: Vec<Completion>,
    /// With those beyond the limit.
    pub total: usize,
    /// By a break; there may be more then.
    pub interrupted: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Labels with their `~` or `?`.
    pub name: String,
    pub kind: String,
    pub typ: Option<String>,
}
