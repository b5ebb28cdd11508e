//! Libraries with C stubs, loaded into a session: their symbols of the OCaml runtime are
//! those of the executable.

use crate::support::{Client, executables, library_with_stubs};

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

#[test]
fn a_library_with_c_stubs_works() {
    let directory = tempfile::tempdir().expect("a directory");
    library_with_stubs(directory.path(), "stubs", C, ML);
    for executable in executables() {
        let mut client = Client::start(executable);
        let archive = executable.archive("stubs");
        let path = directory.path().display();
        let reply = client.eval(&format!("#directory \"{path}\";; #load \"{archive}\""));
        assert!(reply["error"].is_null(), "{reply}");
        let reply = client.eval("Stubs.twice (fun s -> s ^ s) \"ab\"");
        assert_eq!(reply["value_repr"], "(\"abab\", \"abababab\")", "{reply}");
        assert_eq!(reply["stdout"], "from C");
    }
}
