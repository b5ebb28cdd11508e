//! Remote hosts, over real OpenSSH on loopback.

mod connect;
mod files;
mod machines;
mod routing;
mod sshd;
mod state;
mod whole;

use machines::{Near, User, near_at, pair};
