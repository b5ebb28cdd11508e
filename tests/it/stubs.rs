//! Libraries with C stubs, loaded into a session: their symbols of the OCaml runtime are
//! those of the executable.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Client, executables, toolchain};

const C: &str = r#"
#include <stdio.h>
#include <caml/mlvalues.h>
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/memory.h>

/* Allocates, calls back and prints: each needs the runtime that runs. */
value stubs_twice(value f, value text) {
  CAMLparam2(f, text);
  CAMLlocal2(once, pair);
  once = caml_callback(f, text);
  pair = caml_alloc_tuple(2);
  Store_field(pair, 0, once);
  Store_field(pair, 1, caml_callback(f, once));
  printf("from C");
  CAMLreturn(pair);
}
"#;

const ML: &str =
    "external twice : (string -> string) -> string -> string * string = \"stubs_twice\"\n";

fn build(directory: &Path) {
    fs::write(directory.join("stubs_c.c"), C).expect("written");
    fs::write(directory.join("stubs.ml"), ML).expect("written");
    let bin = Path::new(&toolchain("bin")).to_path_buf();
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(bin.join(program))
            .args(arguments)
            .current_dir(directory)
            .status();
        assert!(
            status.expect("the compiler runs").success(),
            "{program} {arguments:?}"
        );
    };
    run("ocamlc", &["-c", "stubs_c.c", "stubs.ml"]);
    run("ocamlmklib", &["-o", "stubs", "stubs_c.o", "stubs.cmo"]);
    if cfg!(native_toplevel) {
        run("ocamlopt", &["-c", "stubs.ml"]);
        run("ocamlmklib", &["-o", "stubs", "stubs_c.o", "stubs.cmx"]);
        run(
            "ocamlopt",
            &[
                "-shared",
                "-linkall",
                "-I",
                ".",
                "-o",
                "stubs.cmxs",
                "stubs.cmxa",
            ],
        );
    }
}

#[test]
fn a_library_with_c_stubs_works() {
    let directory = tempfile::tempdir().expect("a directory");
    build(directory.path());
    for executable in executables() {
        let mut client = Client::start(executable);
        let archive = if executable.variant == "native" {
            "stubs.cmxs"
        } else {
            "stubs.cma"
        };
        let path = directory.path().display();
        let reply = client.eval(&format!("#directory \"{path}\";; #load \"{archive}\""));
        assert!(reply["error"].is_null(), "{reply}");
        let reply = client.eval("Stubs.twice (fun s -> s ^ s) \"ab\"");
        assert_eq!(reply["value_repr"], "(\"abab\", \"abababab\")", "{reply}");
        assert_eq!(reply["stdout"], "from C");
    }
}
