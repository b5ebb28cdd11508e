//! The signals by what they mean to a process that user code runs in.

/// Faults of the code that runs: the thread cannot go on.
pub const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// Signals whose default is to end the process, and those that end the server when they
/// come from others.
const REQUESTS: [i32; 13] = [
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGPOLL,
    libc::SIGXCPU,
    libc::SIGSTKFLT,
    libc::SIGPWR,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGXFSZ,
];

/// Signals that stop the process. Nobody is there who would let it go on, so user code's own
/// do nothing.
pub const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// What others ask of the server; SIGXFSZ makes writes fail instead.
pub const ASKED: [i32; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ];

/// Those that have our handler.
pub fn watched() -> impl Iterator<Item = i32> {
    let named = FAULTS.into_iter().chain(REQUESTS).chain(STOPS);
    named.chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Those that user code cannot block: faults, and what ends or interrupts us.
pub fn unblockable() -> impl Iterator<Item = i32> {
    FAULTS.into_iter().chain(ASKED).chain([libc::SIGINT])
}

/// The name of a signal, as in `SIGSEGV`.
pub fn name(signal: i32) -> String {
    let named = signal_hook::low_level::signal_name(signal);
    named.map_or_else(|| format!("signal {signal}"), str::to_string)
}
