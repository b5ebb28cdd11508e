//! The Model Context Protocol: JSON-RPC envelopes, and what each method means.

pub mod jsonrpc;
pub mod mcp;
