//! The process's own descriptors, which user code can neither close nor replace by number.
//!
//! The functions of C that close, replace, copy or change a descriptor are defined here, and
//! the executable's symbols win over the C library's: so OCaml's `Unix` and stubs call these.
//! To user code our numbers are not open. A child that it forks has none of them at all.

#![allow(unsafe_code, reason = "functions of C")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{c_int, c_uint};

use crate::user_code;

/// A bit for each number that is ours. Higher numbers are not protected.
static OURS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
static FORKED: AtomicBool = AtomicBool::new(false);
static KEPT: AtomicBool = AtomicBool::new(false);

/// Protects all that is open now but fds 0, 1 and 2. To be called once, before user code
/// runs.
pub fn protect_all() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name();
        let number = number.to_str().and_then(|name| name.parse::<RawFd>().ok());
        // But not the folder that is being read.
        let lasts = |number: &RawFd| *number > 2 && !is_folder(*number);
        if let Some(number) = number.filter(lasts) {
            add(number);
        }
    }
    // SAFETY: the handler may run in a child that was forked.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn is_folder(number: RawFd) -> bool {
    fs::metadata(format!("/proc/self/fd/{number}")).is_ok_and(|what| what.is_dir())
}

/// Protects one more, until a thread of ours closes it.
pub fn protect(descriptor: &impl AsFd) {
    add(descriptor.as_fd().as_raw_fd());
}

/// Marks all but fds 0, 1 and 2 to be closed by `exec`, whoever opened them.
pub fn none_over_exec() {
    let (first, last) = (3 as c_uint, c_uint::MAX);
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: no descriptor is closed here. A kernel that lacks the call leaves those of user
    // code open.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

/// Whether this process is a child that user code forked.
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

fn bit(number: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((OURS.get(number / 64)?, 1 << (number % 64)))
}

fn add(number: RawFd) {
    if let Some((word, bit)) = bit(number) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

fn remove(number: RawFd) {
    if let Some((word, bit)) = bit(number) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

fn is_ours(number: RawFd) -> bool {
    bit(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

fn all() -> impl Iterator<Item = RawFd> {
    (0..OURS.len() as RawFd * 64).filter(|number| is_ours(*number))
}

/// Makes copies of this process that are none of user code's children: in them our
/// descriptors stay open and ours.
pub fn kept<T>(fork: impl FnOnce() -> T) -> T {
    KEPT.store(true, Ordering::Relaxed);
    let result = fork();
    KEPT.store(false, Ordering::Relaxed);
    result
}

extern "C" fn in_child() {
    if KEPT.load(Ordering::Relaxed) {
        return;
    }
    FORKED.store(true, Ordering::Relaxed);
    for number in all() {
        remove(number);
        // SAFETY: a plain system call; nothing of ours runs in the child that uses it.
        unsafe { libc::syscall(libc::SYS_close, number) };
    }
}

/// Whether user code asks for what is ours.
fn refuses(number: c_int) -> bool {
    is_ours(number) && user_code::runs_here()
}

fn not_open() -> c_int {
    // SAFETY: the address is that of the thread's own variable.
    unsafe { *libc::__errno_location() = libc::EBADF };
    -1
}

/// C's `close`.
///
/// # Safety
///
/// As for the system call, here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(number: c_int) -> c_int {
    if refuses(number) {
        return not_open();
    }
    remove(number);
    // SAFETY: the caller's.
    unsafe { libc::syscall(libc::SYS_close, number) as c_int }
}

/// Functions whose `numbers` must not be ours if user code calls them.
macro_rules! guarded {
    ($($name:ident = $call:ident ($($argument:ident: $type:ty),*) for $($number:ident)|+;)*) => { $(
        #[doc = concat!("C's `", stringify!($name), "`.\n\n# Safety\n\nAs for `close`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            if $(refuses($number))||+ {
                return not_open();
            }
            // SAFETY: the caller's.
            unsafe { libc::syscall(libc::$call, $($argument),*) as c_int }
        }
    )* };
}

guarded! {
    dup = SYS_dup(old: c_int) for old;
    dup2 = SYS_dup2(old: c_int, new: c_int) for old | new;
    dup3 = SYS_dup3(old: c_int, new: c_int, flags: c_int) for old | new;
    // The third argument is a pointer or an int, passed in the same register.
    fcntl = SYS_fcntl(number: c_int, command: c_int, argument: usize) for number;
    fcntl64 = SYS_fcntl(number: c_int, command: c_int, argument: usize) for number;
}

/// C's `close_range`.
///
/// # Safety
///
/// As for `close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let between = |first: c_uint, last: c_uint| {
        // SAFETY: the caller's.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) as c_int }
    };
    let mut next = first;
    for ours in all().map(|number| number as c_uint) {
        if (next..=last).contains(&ours) {
            if ours > next && between(next, ours - 1) != 0 {
                return -1;
            }
            next = ours + 1;
        }
    }
    if next > last && next != first {
        return 0;
    }
    between(next, last)
}

/// C's `closefrom`.
///
/// # Safety
///
/// As for `close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the caller's.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}
