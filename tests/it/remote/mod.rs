//! Remote hosts, over real OpenSSH on loopback.

mod connect;
mod ends;
mod files;
mod folders;
mod home;
mod lost;
mod machines;
mod network;
mod notopup;
mod routes;
mod routing;
mod sshd;
mod state;
mod stuck;
mod transfer;
mod whole;

use machines::{Machine, Near, User, near_at, pair};
