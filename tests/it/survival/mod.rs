//! User code that would end, block or undermine the process: it costs one reply, which says
//! so, and nothing else.

mod cases;
mod children;
mod ends;
mod memory;
mod process_state;
mod replay;
mod session;
mod signals;
mod stack;
mod stuck;
