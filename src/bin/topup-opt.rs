//! `topup-opt`: the native toplevel.

// The OCaml half, which build.rs makes an archive of.
#[cfg(native_toplevel)]
#[link(name = "topup_native", kind = "static", modifiers = "+whole-archive")]
#[allow(unsafe_code, reason = "an empty block that only names what to link")]
unsafe extern "C" {}

#[global_allocator]
static HEAP: topup::Heap = topup::Heap;

#[cfg(native_toplevel)]
fn main() -> std::process::ExitCode {
    topup::main(topup::Variant::Native)
}

#[cfg(not(native_toplevel))]
fn main() -> std::process::ExitCode {
    eprintln!("topup-opt was left out of this build: its OCaml has no native toplevel library");
    std::process::ExitCode::FAILURE
}
