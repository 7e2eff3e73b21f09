//! The seeds of the fuzz targets and inputs made from them, for the ordinary tests that hold the same properties a short while
//! at each run. A failure says what to seed the next run with.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use fastrand::Rng;

/// An input is made of as many seeds as this at most, and changed in as many places.
const PARTS: usize = 4;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the seeds are there")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files
        .iter()
        .map(|file| fs::read(file).expect("the seed can be read"))
        .collect();
    assert!(!seeds.is_empty(), "{} is empty", folder.display());
    seeds
}

/// Pieces of seeds, one after the other, with some bytes changed, added or left out.
fn made(seeds: &[Vec<u8>], chance: &mut Rng) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..chance.usize(1..=PARTS) {
        let seed = &seeds[chance.usize(..seeds.len())];
        let end = chance.usize(..=seed.len());
        input.extend_from_slice(&seed[chance.usize(..=end)..if chance.bool() { end } else { seed.len() }]);
    }
    for _ in 0..chance.usize(..=PARTS) {
        let at = chance.usize(..=input.len());
        match chance.u8(..3) {
            0 => input.insert(at, chance.u8(..)),
            1 if at < input.len() => input[at] ^= 1 << chance.u8(..8),
            2 if at < input.len() => drop(input.remove(at)),
            _ => {}
        }
    }
    input
}

/// Holds a property against every seed and against so many inputs made from them.
pub(crate) fn hold(target: &str, inputs: usize, check: impl Fn(&[u8])) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| check(seed));
    let number = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    let number = number.unwrap_or_else(|| fastrand::u64(..));
    let mut chance = Rng::with_seed(number);
    for _ in 0..inputs {
        let input = made(&seeds, &mut chance);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            eprintln!("FUZZ_SEED={number}: {:?}", String::from_utf8_lossy(&input));
            resume_unwind(panic);
        }
    }
}
