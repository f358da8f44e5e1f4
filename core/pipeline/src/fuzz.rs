//! Fuzzing on the stable toolchain: kept inputs first, then mutations of them for a while.
//!
//! Inputs lie in `tests/fuzz/corpus/NAME`, one a file. `ROLLGATE_FUZZ_MS` says how long a target is
//! tried (2,000 if absent), `ROLLGATE_FUZZ_SEED` from where. What fails is kept there as
//! `found-…`, so that it is replayed from then on.

#![expect(clippy::disallowed_methods, reason = "a test may look at the clock and at files")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Largest input that is made.
const INPUT_BYTES: usize = 8 << 10;

/// Bytes that mean something to one of the readers.
const ODD: &[u8] = b"\0\n\r\t \"\\{}[],:0-<>|\x7f\xff";

/// Tries a target: `check` panics on what is wrong. `words` are what inputs are made of.
pub(crate) fn run(name: &str, words: &[&str], check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus").join(name);
    let kept = inputs(&folder);
    assert!(!kept.is_empty(), "no input of {name} is kept in {}", folder.display());
    let tried = |input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| check(input)));
        let Err(panic) = outcome else { return };
        let file = folder.join(format!("found-{}", &blake3::hash(input).to_hex()[..16]));
        let _ = std::fs::write(&file, input);
        println!("{name} fails with {}", file.display());
        resume_unwind(panic);
    };
    kept.iter().for_each(|input| tried(input));
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number")),
        Err(_) => default,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("ROLLGATE_FUZZ_SEED", now.as_nanos() as u64);
    let limit = Duration::from_millis(number("ROLLGATE_FUZZ_MS", 2_000));
    println!("{name}: seed {seed}, {} kept", kept.len());
    let (begun, mut dice, mut count) = (Instant::now(), Dice(seed | 1), 0_u64);
    while begun.elapsed() < limit {
        tried(&mutated(&kept, words, &mut dice));
        count += 1;
    }
    println!("{name}: {count} inputs held");
}

fn inputs(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Places to cut an input at that depend on nothing but it.
pub(crate) fn cuts(input: &[u8], most: usize) -> Vec<usize> {
    let mut dice = Dice(xxhash(input) | 1);
    let mut cuts: Vec<usize> = (0..most).map(|_| dice.below(input.len() + 1)).collect();
    cuts.extend([0, input.len()]);
    cuts.sort_unstable();
    cuts
}

fn xxhash(input: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&blake3::hash(input).as_bytes()[..8]);
    u64::from_le_bytes(eight)
}

/// Numbers that only look random.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end.max(1)
    }

    fn range(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let (a, b) = (self.below(input.len() + 1), self.below(input.len() + 1));
        let near = a.min(b)..a.max(b);
        if self.below(2) == 0 { near.start..near.end.min(near.start + 16) } else { near }
    }
}

fn mutated(kept: &[Vec<u8>], words: &[&str], dice: &mut Dice) -> Vec<u8> {
    let mut input = kept[dice.below(kept.len())].clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(input.len() + 1);
        let range = dice.range(&input);
        match dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = ODD[dice.below(ODD.len())],
            2 => drop(input.drain(range)),
            3 => {
                let piece = input[range].to_vec();
                input.splice(at..at, piece);
            }
            4 | 5 if !words.is_empty() => {
                let word = words[dice.below(words.len())].bytes();
                input.splice(at..at, word);
            }
            6 if !words.is_empty() => {
                let word = words[dice.below(words.len())].bytes();
                input.splice(range, word);
            }
            7 => {
                let other = &kept[dice.below(kept.len())];
                let piece = other[dice.range(other)].to_vec();
                input.splice(range, piece);
            }
            8 => input.truncate(at),
            _ => {}
        }
    }
    input.truncate(INPUT_BYTES);
    input
}

#[test]
fn mutations_differ_and_a_failure_is_told() {
    let kept = vec![b"{\"a\": [1, 2]}".to_vec(), b"other".to_vec()];
    let mut dice = Dice(7);
    let made: std::collections::BTreeSet<Vec<u8>> =
        (0..500).map(|_| mutated(&kept, &["word"], &mut dice)).collect();
    assert!(made.len() > 300, "{}", made.len());
    assert!(made.iter().any(|input| input.windows(4).any(|four| four == b"word")));
    assert_eq!(cuts(b"some input", 3), cuts(b"some input", 3));
}
