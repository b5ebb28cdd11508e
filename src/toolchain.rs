//! The OCaml tools that belong to the toplevel in this process: those that build.rs found.

use std::env;
use std::ffi::OsString;
use std::path::Path;

/// The folder of its `ocamlc`.
pub const BIN: &str = env!("TOPUP_OCAML_BIN");
/// Its standard library.
pub const LIB: &str = env!("TOPUP_OCAML_LIB");

/// Variables under which a command finds these tools and their packages; none where it does
/// anyway. What the user put into `OCAMLPATH` comes first.
pub fn environment() -> Vec<(&'static str, OsString)> {
    if ["ocamlc", "ocamlfind"].iter().all(|tool| is_ours(tool)) {
        return Vec::new();
    }
    let joined = |first: Option<&str>, name: &str, last: Option<&str>| {
        let own = env::var_os(name).unwrap_or_default();
        let own = env::split_paths(&own).filter(|path| !path.as_os_str().is_empty());
        let first = first.into_iter().map(Into::into);
        let all = first.chain(own).chain(last.into_iter().map(Into::into));
        env::join_paths(all).unwrap_or_default()
    };
    vec![
        ("PATH", joined(Some(BIN), "PATH", None)),
        ("OCAMLPATH", joined(None, "OCAMLPATH", Some(LIB))),
        ("OCAMLFIND_CONF", "/dev/null".into()),
    ]
}

/// [`environment`] as the beginning of a shell command.
pub fn shell_environment() -> String {
    let quoted = |value: OsString| value.to_string_lossy().replace('\'', r"'\''");
    let export = |(name, value)| format!("export {name}='{}'; ", quoted(value));
    environment().into_iter().map(export).collect()
}

/// Whether PATH leads to the tool of that name that belongs to us.
fn is_ours(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).find(|folder| folder.join(tool).is_file());
    let real = |folder: &Path| folder.canonicalize().ok();
    found.is_some_and(|folder| real(&folder) == real(Path::new(BIN)))
}
