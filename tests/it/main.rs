//! Every test of the Rust half: one binary, a module per behaviour.

// The tests that run in this process use the bytecode toplevel.
#[link(name = "topup_byte", kind = "static", modifiers = "+whole-archive")]
#[allow(unsafe_code, reason = "an empty block that only names what to link")]
unsafe extern "C" {}

mod complete;
mod corpus;
mod disk;
mod eras;
mod fuzz;
mod input;
mod interrupt;
mod libraries;
mod load;
mod lookup;
mod output;
mod phrase_log;
mod process;
mod project;
mod promotion;
mod protocol;
mod remote;
mod reports;
mod reset;
mod sessions;
mod soundness;
mod stubs;
mod support;
mod survival;
mod suspended;
mod tidy;
mod transcripts;
mod typecheck;
mod workspace;
