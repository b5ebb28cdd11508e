//! Sessions: where a call's phrases run.

mod local;

pub use local::{Local, Ticket, Turn};
