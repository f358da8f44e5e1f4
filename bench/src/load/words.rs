//! Seeded text as tool results have it: code, prose, listings, logs. The vocabulary is large and some
//! of every line is new, so that a tokenizer's cache of words helps as much as it does with real text.

use crate::engine::score::spread;

/// Words of the vocabulary. Which one is said follows Zipf's law: rank r with a share of 1/r.
const WORDS: usize = 60_000;
/// Drawn ranks, as a table, since a power for each word would cost more than the word.
const DRAWS: usize = 1 << 16;

/// A small seeded generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(spread(seed ^ 0x726f_6c6c_6761_7465))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        spread(self.0)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What the lines are. `@` is a word, `^` one with a capital, `#` a number, `%` eight hex digits,
/// `~` four to nine words.
const LINES: [&str; 16] = [
    "        let @ = self.@.@(@, #)?;",
    "    pub fn @(&mut self, @: &str) -> Result<^, ^Error> {",
    "        if @.@() > # { return Err(^::^(@)); }",
    "src/@/@.rs:#:    @.push(@);",
    "^ ~, ~ and ~.",
    "+            \"@\": @.get(\"@\", #),",
    "-        return self.@(@=#, @=None)",
    "test @::@::@ ... ok",
    "2026-03-14T09:2#Z INFO @::@: @=% @=#",
    "// ^ ~ @ ~.",
    "^ ~ the @ of the @, since ~.",
    "    for (int @ = 0; @ < @->@_len; @++) {",
    "  File \"/repo/@/@.py\", line #, in @",
    "drwxr-xr-x  # @ @  # Mar 14 09:2# @-@",
    "        assert_eq!(@(&@, #), ^ { @: # });",
    "- `@`: ~ (see @.md)",
];

const SEEDS: &str = "the a of to in is it for and that with as on this be are not from by if an or at \
    self let fn pub use impl return match else Some None Ok Err str String Vec value name path file \
    line error data type size key list item node index count state result request response config \
    test check read write open close start stop send get set new old next last first length offset \
    buffer cache parse render encode token message event handler client server session user text \
    when there which has have was will can should must only each other than then its into over such \
    import def class async await None True False int float bool usize u32 u64 mut ref static const \
    table row column query field model view task queue worker thread lock timer clock frame stream \
    header body status code retry limit bound chunk block page entry record journal segment branch";
const SYLLABLES: [&str; 40] = [
    "al", "ber", "cor", "dan", "el", "for", "gra", "hin", "in", "jo", "kel", "lum", "mar", "nor",
    "op", "par", "qui", "ren", "sol", "tan", "ul", "ver", "wen", "xi", "yor", "zen", "con", "pre",
    "tion", "ment", "able", "ing", "er", "ous", "ity", "ex", "de", "sub", "trans", "dis",
];

/// The vocabulary.
pub(crate) struct Words {
    words: Vec<Box<str>>,
    draws: Vec<u16>,
}

impl Words {
    /// The same words for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let seeds: Vec<&str> = SEEDS.split_ascii_whitespace().collect();
        let mut words: Vec<Box<str>> = seeds.iter().map(|word| (*word).into()).collect();
        while words.len() < WORDS {
            words.push(made(&mut rng, &seeds).into());
        }
        let ranks = (0..DRAWS).map(|_| (WORDS as f64).powf(rng.share()) as usize - 1);
        let draws = ranks.map(|rank| rank.min(WORDS - 1) as u16).collect();
        Self { words, draws }
    }

    fn word(&self, rng: &mut Rng) -> &str {
        &self.words[usize::from(self.draws[(rng.next() >> 48) as usize])]
    }

    /// A line, without its end.
    pub(crate) fn line(&self, rng: &mut Rng, out: &mut String) {
        let line = LINES[rng.below(LINES.len())];
        for piece in line.split_inclusive(['@', '^', '#', '%', '~']) {
            let (plain, last) = piece.split_at(piece.len() - 1);
            out.push_str(plain);
            match last {
                "@" => out.push_str(self.word(rng)),
                "^" => {
                    let word = self.word(rng);
                    out.push(word.as_bytes()[0].to_ascii_uppercase().into());
                    out.push_str(&word[1..]);
                }
                "#" => digits(rng.next() >> (40 + rng.below(20)), out),
                "%" => hex(rng.next(), out),
                "~" => {
                    for n in 0..4 + rng.below(6) {
                        out.push_str(if n > 0 { " " } else { "" });
                        out.push_str(self.word(rng));
                    }
                }
                other => out.push_str(other),
            }
        }
    }

    /// At least so many bytes of lines, each with its end.
    pub(crate) fn text(&self, rng: &mut Rng, bytes: usize, out: &mut String) {
        let end = out.len() + bytes;
        while out.len() < end {
            self.line(rng, out);
            out.push('\n');
        }
    }
}

/// A word that was never said: an identifier of known words, or of syllables.
fn made(rng: &mut Rng, seeds: &[&str]) -> String {
    let mut word = String::new();
    match rng.below(4) {
        0 => {
            word.push_str(seeds[rng.below(seeds.len())]);
            word.push('_');
            word.push_str(seeds[rng.below(seeds.len())]);
        }
        1 => {
            word.push_str(seeds[rng.below(seeds.len())]);
            word.push_str("By");
            word.push_str(SYLLABLES[rng.below(SYLLABLES.len())]);
        }
        _ => {}
    }
    while word.len() < 5 + rng.below(6) {
        word.push_str(SYLLABLES[rng.below(SYLLABLES.len())]);
    }
    word
}

fn digits(mut number: u64, out: &mut String) {
    let mut text = [0; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text[at..].iter().for_each(|digit| out.push((*digit).into()));
}

fn hex(number: u64, out: &mut String) {
    for n in 0..8 {
        out.push(char::from(b"0123456789abcdef"[(number >> (4 * n)) as usize & 15]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_says_the_same_and_another_something_else() {
        let words = Words::new(1);
        let said = |seed| {
            let mut out = String::new();
            words.text(&mut Rng::new(seed), 4_000, &mut out);
            out
        };
        assert_eq!(said(1), said(1));
        assert_ne!(said(1), said(2));
        assert!(said(3).is_ascii() && said(3).len() < 4_400);
    }
}
