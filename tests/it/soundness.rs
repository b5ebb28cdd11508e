//! A failed phrase leaves types and values as they were: in bytecode values hang on names,
//! and an old type over a new value is a crash, or worse, no crash.

use crate::support::{Client, Executable, Random, executables};

/// A name's type and what the toplevel prints for it.
#[derive(Clone)]
struct Binding {
    typ: &'static str,
    value: String,
}

fn fresh(random: &mut Random) -> Binding {
    let n = random.below(1000);
    let (typ, value) = match random.below(4) {
        0 => ("int", format!("{n}")),
        1 => ("string", format!("\"s{n}\"")),
        2 => ("float list", format!("[{n}.; 0.5]")),
        _ => ("(int * string) option", format!("Some ({n}, \"t\")")),
    };
    Binding { typ, value }
}

/// How a phrase that shadows two names goes wrong after it bound the first.
const FAILURES: [&str; 5] = [
    "failwith \"stop\"",
    "1 + true",
    "List.hd []",
    "(while true do () done)",
    "(let rec deep n = 1 + deep n in deep 0)",
];

#[test]
fn failed_phrases_undo_what_they_bound() {
    for executable in executables() {
        // A native phrase takes twenty times as long.
        let rounds = if executable.variant == "native" {
            40
        } else {
            300
        };
        run(executable, rounds);
    }
}

fn run(executable: Executable, rounds: usize) {
    let mut random = Random(2026);
    let mut client = Client::start(executable);
    let names = ["a", "b", "c"];
    let mut model: Vec<Binding> = names.iter().map(|_| fresh(&mut random)).collect();
    for (name, binding) in names.iter().zip(&model) {
        client.eval(&format!("let {name} = {}", binding.value));
    }
    for _ in 0..rounds {
        let index = random.below(3) as usize;
        let (name, other) = (names[index], names[(index + 1) % 3]);
        let binding = fresh(&mut random);
        let bind = format!("let {name} : {} = {}", binding.typ, binding.value);
        if random.below(2) == 0 {
            let reply = client.eval(&bind);
            assert_eq!(reply["value_repr"], binding.value, "{reply}");
            model[index] = binding;
        } else {
            let failure = FAILURES[random.below(FAILURES.len() as u64) as usize];
            let reply = client.eval_within(&format!("{bind} let {other} : int = {failure}"), 0.05);
            assert!(reply["error"].is_string(), "{reply}");
        }
        for (name, binding) in names.iter().zip(&model) {
            let reply = client.eval(name);
            assert_eq!(reply["value_repr"], binding.value, "{reply}");
            assert_eq!(reply["type"], binding.typ, "{reply}");
        }
    }
}
