//! Any bytes, in any portions, through the line reader and the envelope parser.

#![no_main]

// The sources themselves: to link the crate is to link OCaml.
#[path = "../../src/transport/lines.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
mod lines;

#[path = "../../src/protocol/jsonrpc.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
mod jsonrpc;

mod transport {
    pub use crate::lines::{BadLine, Message};
}

#[path = "../property.rs"]
mod property;

use lines::Lines;
use transport::Message;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::check(input));
