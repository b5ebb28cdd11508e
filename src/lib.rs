//! A live OCaml toplevel in this process, served over the Model Context Protocol.
//!
//! A request, top to bottom; the modules below come in the same order:
//!
//! ```text
//! line -> transport (Message) -> protocol (Request) -> server (pending) -> router
//!   -> tools::eval -> session::Local -> evaluator (Job) == eval thread ==
//!   -> bridge -> ocaml/bridge.ml -> toplevel.ml -> evaluation -> phrases -> runner
//!   => outcome -> tools::report -> server -> protocol -> transport
//! ```

mod adopt;
mod cli;
pub mod crash;
mod descriptors;
mod dispositions;
pub mod end;
mod exits;
mod home;
mod limits;
mod logging;
pub mod reexec;
mod service;
mod settings;
mod shutdown;
mod signals;
mod socket;
mod stack;
mod stdio;
mod user_code;

mod bytes;
pub mod capture;
pub mod checkpoint;
mod cpu;
mod eval_thread;
pub mod evaluator;
mod instructions;
mod interrupt;
pub mod job;
mod memory;
mod mutex;
mod orphans;
pub mod overflow;
pub mod phrase_log;
mod process_group;
pub mod progress;
mod promotion;
pub mod protocol;
pub mod router;
pub mod server;
pub mod session;
pub mod tools;
mod transfer;
pub mod transport;

mod backtrace;
mod bridge;
mod command;
mod debug_info;
pub mod error;
pub mod outcome;
pub mod query;
mod toolchain;
mod worker;

pub use cli::main;
pub use evaluator::{Evaluated, Evaluation, Evaluator, Run, Stop};
pub use outcome::Outcome;
pub use settings::Settings;

/// Where the executables have their memory: apart from the C library's heap, which user code
/// can damage, or keep locked when it comes to its end there.
pub use mimalloc::MiMalloc as Heap;

/// Which OCaml toplevel an executable is linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Bytecode,
    Native,
}

impl Variant {
    /// The executable that is linked with it.
    pub fn executable(self) -> &'static str {
        match self {
            Variant::Bytecode => "topup",
            Variant::Native => "topup-opt",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Variant::Bytecode => "bytecode",
            Variant::Native => "native",
        }
    }
}
