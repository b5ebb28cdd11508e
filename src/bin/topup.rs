//! `topup`: the bytecode toplevel.

// The OCaml half, which build.rs makes an archive of.
#[link(name = "topup_byte", kind = "static", modifiers = "+whole-archive")]
#[allow(unsafe_code, reason = "an empty block that only names what to link")]
unsafe extern "C" {}

#[global_allocator]
static HEAP: topup::Heap = topup::Heap;

fn main() -> std::process::ExitCode {
    topup::main(topup::Variant::Bytecode)
}
