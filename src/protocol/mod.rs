//! The Model Context Protocol: JSON-RPC envelopes and batches, the revisions, and what each
//! method means.

pub mod batch;
pub mod jsonrpc;
pub mod mcp;
pub mod messages;
pub mod revision;
