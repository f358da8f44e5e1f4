//! Many cheap agents and an engine of this process, for tests that load a gateway and hurt it.
//!
//! Every answer that the engine samples carries a number of its own in its text, so that each can be
//! followed from the engine through the journal to the agent.

pub mod client;
pub mod engine;
pub mod journals;

/// The word that carries a number.
pub fn word(number: u64) -> String {
    format!("zq{number:06}qz")
}

/// The numbers whose words are in this text, each once.
pub fn numbers(text: &str) -> Vec<u64> {
    let number = |at: usize| text.get(at + 2..at + 8)?.parse().ok();
    let ends = |at: &usize| text.get(at + 8..at + 10) == Some("qz");
    let mut found: Vec<u64> =
        text.match_indices("zq").map(|(at, _)| at).filter(ends).filter_map(number).collect();
    found.dedup();
    found
}

/// A small source of chance, so that nothing has to agree on when to do what.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins with this number.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// One of so many numbers.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    /// Whether something of this probability, in thousandths, happens.
    pub fn happens(&mut self, thousandths: u64) -> bool {
        self.below(1_000) < thousandths
    }
}
