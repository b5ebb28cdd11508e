//! Every test of the Rust half: one binary, a module per behaviour.

// The tests that run in this process use the bytecode toplevel.
#[link(name = "topup_byte", kind = "static", modifiers = "+whole-archive")]
#[allow(unsafe_code, reason = "an empty block that only names what to link")]
unsafe extern "C" {}

mod interrupt;
mod libraries;
mod load;
mod output;
mod process;
mod project;
mod protocol;
mod soundness;
mod stubs;
mod support;
mod tidy;
mod transcripts;
mod workspace;
