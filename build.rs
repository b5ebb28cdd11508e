//! Builds the OCaml half with dune and tells cargo how to link it: one object per
//! variant, and the matching OCaml runtime, whole.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    for input in ["build.rs", ".ci/toolchain", "dune", "dune-project", "ocaml"] {
        println!("cargo:rerun-if-changed={input}");
    }
    for variable in ["TOPUP_OCAML", "TOPUP_CACHE", "PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let toolchain = Toolchain::find();
    println!(
        "cargo:rerun-if-changed={}",
        toolchain.lib.join("Makefile.config").display()
    );

    // For src/toolchain.rs.
    println!(
        "cargo:rustc-env=TOPUP_OCAML_BIN={}",
        toolchain.bin.display()
    );
    println!(
        "cargo:rustc-env=TOPUP_OCAML_LIB={}",
        toolchain.lib.display()
    );

    toolchain.link(&BYTECODE);
    toolchain.debug_info();
    if toolchain.native {
        toolchain.link(&NATIVE);
        println!("cargo:rustc-cfg=native_toplevel");
    } else {
        println!(
            "cargo:warning=topup-opt is left out: OCaml {} has no native toplevel library",
            toolchain.version
        );
    }
}

/// What is linked for one of the two executables.
struct Variant {
    /// Its directory below `ocaml/`.
    directory: &'static str,
    /// The dune target, which is also the name in the executable's `#[link]`.
    object: &'static str,
    runtime: &'static str,
    /// The member of the runtime's archive that holds its `main`.
    runtime_main: &'static str,
    /// Keys of `ocamlc -config` that hold the C libraries of the runtime.
    c_libraries: &'static [&'static str],
    /// Under which name dependents get the link arguments.
    metadata: &'static str,
    /// Cargo's name for what gets the link arguments.
    consumers: &'static [&'static str],
}

/// Functions of C that src/exits.rs, src/descriptors.rs and src/dispositions.rs define anew:
/// for the stubs that are loaded later, too.
const C_FUNCTIONS: [&str; 16] = [
    "_exit",
    "_Exit",
    "quick_exit",
    "pthread_exit",
    "close",
    "close_range",
    "closefrom",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "fcntl64",
    "sigaction",
    "signal",
    "pthread_sigmask",
    "sigprocmask",
];

const BYTECODE: Variant = Variant {
    directory: "byte",
    object: "topup_byte",
    runtime: "libcamlrun.a",
    runtime_main: "main.b.o",
    c_libraries: &["bytecomp_c_libraries", "bytecode_c_libraries"],
    metadata: "bytecode",
    consumers: &["link-arg-bin=topup", "link-arg-tests"],
};

const NATIVE: Variant = Variant {
    directory: "native",
    object: "topup_native",
    runtime: "libasmrun.a",
    runtime_main: "main.n.o",
    c_libraries: &["native_c_libraries", "compression_c_libraries"],
    metadata: "native",
    consumers: &["link-arg-bin=topup-opt"],
};

/// The answer of `.ci/toolchain find`.
struct Toolchain {
    bin: PathBuf,
    lib: PathBuf,
    version: String,
    native: bool,
    dune: PathBuf,
    ocamlfind: PathBuf,
}

impl Toolchain {
    fn find() -> Toolchain {
        let output = Command::new(root().join(".ci/toolchain"))
            .arg("find")
            .output();
        let output = output.unwrap_or_else(|e| fail(&format!("cannot run .ci/toolchain: {e}")));
        if !output.status.success() {
            fail(String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answers: HashMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .collect();
        let answer = |key| answers.get(key).copied().unwrap_or_default();
        Toolchain {
            bin: answer("bin").into(),
            lib: answer("lib").into(),
            version: answer("version").into(),
            native: answer("native") == "yes",
            dune: answer("dune").into(),
            ocamlfind: answer("ocamlfind").into(),
        }
    }

    /// Leaves what `src/debug_info.rs` includes.
    fn debug_info(&self) {
        let (from, to) = (self.dune("ocaml/byte/stdlib.cds"), out().join("stdlib.cds"));
        // dune's file is read-only, which the next copy must not meet.
        let copied = std::fs::read(&from).and_then(|bytes| std::fs::write(&to, bytes));
        copied.unwrap_or_else(|error| fail(&format!("{}: {error}", from.display())));
    }

    /// Builds a target and returns its path.
    fn dune(&self, target: &str) -> PathBuf {
        let build = out().join("_build");
        run(Command::new(&self.dune)
            .args(["build", "--profile", "release", "--display", "quiet"])
            .args(["-j", &env::var("NUM_JOBS").unwrap()])
            .arg("--root")
            .arg(root())
            .arg("--build-dir")
            .arg(&build)
            .arg(target)
            .env("PATH", self.path())
            .env("OCAMLPATH", &self.lib)
            .env("OCAMLFIND_CONF", "/dev/null")
            .env_remove("OCAMLLIB"));
        build.join("default").join(target)
    }

    /// Builds the variant's object and names it, and its runtime, to the linker.
    fn link(&self, variant: &Variant) {
        let target = format!("ocaml/{}/{}.o", variant.directory, variant.object);
        let object = self.dune(&target);
        let out = out();
        let archive = out.join(format!("lib{}.a", variant.object));
        let _ = std::fs::remove_file(&archive);
        run(Command::new("ar").arg("crs").arg(&archive).arg(object));
        println!("cargo:rustc-link-search=native={}", out.display());

        let runtime = out.join(variant.runtime);
        // src/command.rs and src/interrupt.rs define these anew; the latter calls the original.
        run(Command::new("objcopy")
            .arg("--weaken-symbol=caml_sys_system_command")
            .arg("--redefine-sym=caml_install_signal_handler=topup_runtime_install_signal_handler")
            .arg("--redefine-sym=caml_sys_exit=topup_runtime_sys_exit")
            .arg(self.lib.join(variant.runtime))
            .arg(&runtime));
        // The runtime's own `main` has no place beside Rust's.
        run(Command::new("ar")
            .arg("d")
            .arg(&runtime)
            .arg(variant.runtime_main));
        let mut arguments = vec![
            "-Wl,--whole-archive".to_string(),
            runtime.display().to_string(),
            "-Wl,--no-whole-archive".to_string(),
        ];
        // What stubs and phrases that are loaded later refer to. Not -rdynamic: that would
        // keep all of Rust's dead code, too, and want the C parts of crates that we leave out.
        for names in ["caml*", "Caml*", "topup_*"].iter().chain(&C_FUNCTIONS) {
            arguments.push(format!("-Wl,--export-dynamic-symbol={names}"));
        }
        let compression = self.lib.join("libcomprmarsh.a");
        if variant.directory == "native" && compression.exists() {
            arguments.push(compression.display().to_string());
        }
        arguments.extend(self.c_libraries(variant));
        // For build scripts of programs that use the library: DEP_TOPUP_BYTECODE, …_NATIVE.
        println!("cargo:{}={}", variant.metadata, arguments.join(" "));
        for consumer in variant.consumers {
            for argument in &arguments {
                println!("cargo:rustc-{consumer}={argument}");
            }
        }
    }

    fn c_libraries(&self, variant: &Variant) -> Vec<String> {
        let output = Command::new(self.bin.join("ocamlc"))
            .arg("-config")
            .output();
        let text = output.map(|o| o.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(key, _)| variant.c_libraries.contains(key))
            .flat_map(|(_, libraries)| libraries.split_whitespace().map(str::to_string))
            .collect()
    }

    fn path(&self) -> std::ffi::OsString {
        let rest = env::var_os("PATH").unwrap_or_default();
        let tools = [&self.bin, self.ocamlfind.parent().unwrap_or(Path::new("/"))];
        let tools = tools.into_iter().map(|dir| dir.to_path_buf());
        env::join_paths(tools.chain(env::split_paths(&rest))).unwrap()
    }
}

fn out() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").unwrap())
}

fn root() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap())
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}")),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}
