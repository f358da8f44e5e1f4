//! Is one text in another, though white space and wrapping differ?

use std::collections::HashSet;

/// So many characters in a row are no accident.
pub(super) const RUN: usize = 40;

/// The text with every stretch of white space as one blank, none at the ends.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(word);
    }
    plain
}

/// Hashes of all runs of [`RUN`] characters.
fn runs(plain: &str) -> impl Iterator<Item = u64> {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |hash: u64, c: char| hash.wrapping_mul(BASE).wrapping_add(u64::from(c) + 1);
    let leaving = (0..RUN).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let first: Option<u64> =
        plain.char_indices().nth(RUN - 1).map(|_| plain.chars().take(RUN).fold(0, step));
    let rest = plain.chars().skip(RUN).zip(plain.chars());
    let rolled = rest.scan(first.unwrap_or_default(), move |hash, (enters, leaves)| {
        *hash = step(*hash, enters).wrapping_sub(leaving.wrapping_mul(u64::from(leaves) + 1));
        Some(*hash)
    });
    first.into_iter().chain(rolled)
}

/// A text that was written by a turn, to be found again where somebody took it over, whole or in
/// part. What the turn's own prompt had already is no evidence: a summary quotes what it sums up.
pub(super) struct Written {
    plain: String,
    own_runs: HashSet<u64>,
    /// Whether the prompt did not have the whole text.
    own: bool,
}

impl Written {
    /// `None` for an empty text. `prompt`: all messages that the turn could quote.
    pub(super) fn new<'p>(text: &str, prompt: impl Iterator<Item = &'p str>) -> Option<Self> {
        let text = plain(text);
        if text.is_empty() {
            return None;
        }
        let mut written = Self { own_runs: runs(&text).collect(), plain: text, own: true };
        for known in prompt {
            let known = plain(known);
            written.own &= !known.contains(&written.plain);
            for run in runs(&known) {
                written.own_runs.remove(&run);
            }
        }
        Some(written)
    }

    /// Whether it, or a run of what is its own, is in this plain text.
    pub(super) fn is_in(&self, plain: &str) -> bool {
        let long = self.plain.chars().nth(RUN - 1).is_some();
        ((long || self.own) && has_words(plain, &self.plain))
            || runs(plain).any(|run| self.own_runs.contains(&run))
    }
}

/// Whether these words are there, not merely as part of longer ones.
fn has_words(plain: &str, words: &str) -> bool {
    let outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    plain.match_indices(words).any(|(at, _)| {
        outside(plain[..at].chars().next_back())
            && outside(plain[at + words.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "The parser was rewritten; two tests still fail in the lexer module.";

    fn is_in(text: &str, prompt: &[&str], other: &str) -> bool {
        let written = Written::new(text, prompt.iter().copied());
        written.is_some_and(|written| written.is_in(&plain(other)))
    }

    #[test]
    fn a_text_is_found_through_white_space_and_wrapping() {
        let wrapped = format!("Earlier:\n\n{}\n\nGo on.", SUMMARY.replace(' ', "\n  "));
        assert!(is_in(SUMMARY, &[], &wrapped));
        let part = &SUMMARY[10..60];
        assert!(is_in(SUMMARY, &[], &format!("<s>{part}</s>")), "50 characters of it");
        assert!(!is_in(SUMMARY, &[], &SUMMARY[10..40]), "30 are too few");
        assert!(!is_in("", &[], SUMMARY) && !is_in(" \n", &[], SUMMARY));
    }

    #[test]
    fn what_the_prompt_had_is_no_evidence() {
        let asked = "Please rewrite the parser so that it keeps all comments of the source.";
        let summary = format!("The user said: {asked} That is done now.");
        assert!(!is_in(&summary, &[asked], asked));
        assert!(is_in(&summary, &[asked], &summary));
        assert!(is_in("done", &["do it"], "They said: done."));
        assert!(!is_in("done", &["is it done?"], "They said: done."));
        assert!(!is_in("do", &[], "It is done."), "part of a word");
    }

    #[test]
    fn runs_depend_on_their_own_characters_only() {
        let text: String = ('a'..='z').cycle().take(90).chain("äöü€".chars()).collect();
        let all: Vec<u64> = runs(&text).collect();
        assert_eq!(all.len(), text.chars().count() - RUN + 1);
        for (at, run) in all.iter().enumerate() {
            let alone: String = text.chars().skip(at).take(RUN).collect();
            assert_eq!(runs(&alone).collect::<Vec<_>>(), [*run]);
        }
        assert_eq!(runs("short").count(), 0);
    }
}
