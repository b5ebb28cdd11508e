//! The property that `make fuzz` tries to break, on the inputs that are known.

use std::fs;
use std::path::Path;

use fastrand::Rng;
use topup::protocol::jsonrpc;
use topup::transport::{Lines, Message};

#[path = "../../fuzz/property.rs"]
mod property;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/lines");
    let entries = fs::read_dir(folder).expect("the corpus");
    let read = |entry: fs::DirEntry| fs::read(entry.path()).expect("readable");
    entries
        .map(|entry| read(entry.expect("an entry")))
        .collect()
}

#[test]
fn the_corpus_holds() {
    let corpus = corpus();
    assert!(corpus.len() >= 10);
    corpus.iter().for_each(|input| property::check(input));
}

#[test]
fn what_is_near_the_corpus_holds() {
    let corpus = corpus();
    let seed = 20_251_125;
    let mut rng = Rng::with_seed(seed);
    for round in 0..20_000 {
        let mut input = corpus[rng.usize(..corpus.len())].clone();
        for _ in 0..rng.usize(1..8) {
            let at = rng.usize(..=input.len());
            match rng.u8(..3) {
                0 if at < input.len() => input[at] = rng.u8(..),
                1 if at < input.len() => drop(input.remove(at)),
                _ => input.insert(at, b"{}[]\",:\n\\0-e"[rng.usize(..12)]),
            }
        }
        let text = String::from_utf8_lossy(&input).into_owned();
        let checked = std::panic::catch_unwind(|| property::check(&input));
        assert!(checked.is_ok(), "round {round} of seed {seed}: {text:?}");
    }
}
