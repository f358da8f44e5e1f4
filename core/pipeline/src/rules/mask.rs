//! Texts that are equal but for masks, found by walking both at once.
//!
//! Where they differ, one of the two must hold a mask; it stands for what the other has up to the
//! place where the text behind the mask comes again.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::{Action, RuleSet, Spot};
use crate::turn::Role;

/// A mask may stand for at most this many bytes: a private key, not a document.
const HIDDEN_BYTES: usize = 8 << 10;
/// What dots in the middle of a word may stand for.
const ABBREVIATED_BYTES: usize = 1 << 10;

/// Text that one comparison looks through for places where masks end; who sends more masks than
/// that is not believed, so that nobody keeps a shard busy with them.
const SEARCHED_BYTES: usize = 8 << 20;
/// Of the text behind a mask at most this much is looked for.
const LITERAL_BYTES: usize = 256;

/// By so many characters behind a mask the place is found where the other text goes on.
const ANCHOR_CHARS: usize = 3;

/// Runs of stars, `[REDACTED…]`, `<redacted…>`, and dots inside a word (`abc123...wxyz`).
#[expect(clippy::expect_used, reason = "a constant pattern; a test compiles it")]
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    let shapes =
        r"\*{3,}|•{3,}|(?i:[\[<](?:redacted|masked|secret|hidden)[^\]>\n]{0,40}[\]>])|\.{3}|…";
    Regex::new(shapes).expect("the pattern of masks")
});

thread_local! {
    /// A copy that shares nothing with other threads.
    static SHAPES_HERE: Regex = SHAPES.clone();
}

/// A span that may be a mask.
struct Mask {
    span: Range<usize>,
    /// Dots inside a word: what they stand for has no white space.
    word: bool,
}

/// The number of the first `masked` rule by which two different texts are equal.
pub(crate) fn aligned(rules: &RuleSet, role: Role, left: &str, right: &str) -> Option<u16> {
    let anywhere = Spot { leading: false, last: false };
    let (left, right) = (normalised(left), normalised(right));
    rules
        .rules()
        .filter(|(_, rule)| rule.action() == Action::Masked && rule.looks_at(role, anywhere))
        .find(|(_, rule)| match &rule.pattern {
            Some(pattern) => {
                align(&left, &custom(pattern, &left), &right, &custom(pattern, &right))
            }
            None => align_shapes(&left, &right),
        })
        .map(|(number, _)| number)
}

fn normalised(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n")),
        false => Cow::Borrowed(text),
    }
}

fn custom(pattern: &Regex, text: &str) -> Vec<Mask> {
    let found = pattern.find_iter(text).filter(|hit| !hit.is_empty());
    found.map(|hit| Mask { span: hit.range(), word: false }).collect()
}

/// Masks of the usual shapes that begin in this span of a text. None of them goes over the end of a
/// line, so that a line is enough to find those in it.
fn shapes<'t>(
    pattern: &'t Regex,
    text: &'t str,
    span: Range<usize>,
) -> impl Iterator<Item = Mask> + 't {
    let in_word =
        |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    pattern.find_iter(&text[span.clone()]).filter_map(move |hit| {
        let at = hit.start() + span.start..hit.end() + span.start;
        let word = hit.as_str().starts_with(['.', '…']);
        let inside =
            in_word(text[..at.start].chars().next_back()) && in_word(text[at.end..].chars().next());
        (!word || inside).then_some(Mask { span: at, word })
    })
}

/// Whether two texts are equal but for masks of the usual shapes. Bytes come first: where the texts
/// begin to differ, a mask must stand on one side, and before that line none is looked for.
fn align_shapes(left: &str, right: &str) -> bool {
    SHAPES_HERE.with(|pattern| align_by(pattern, left, right))
}

fn align_by(pattern: &Regex, left: &str, right: &str) -> bool {
    let common = common_prefix(left, right);
    let line = left[..common].rfind('\n').map_or(0, |at| at + 1);
    let masked = |text: &str| {
        let end = text[common..].find('\n').map_or(text.len(), |at| common + at);
        let mut masks = shapes(pattern, text, line..end).filter(|mask| mask.span.end > common);
        masks.next().is_some_and(|mask| mask.span.start <= common)
    };
    if !masked(left) && !masked(right) {
        return left == right;
    }
    let masks = |text: &str| shapes(pattern, text, line..text.len()).collect::<Vec<_>>();
    align(left, &masks(left), right, &masks(right))
}

/// One text on the walk: how far it is read, and up to which mask.
struct Side<'t> {
    text: &'t str,
    masks: &'t [Mask],
    at: usize,
    /// Nothing before this may be read again: a mask ended here.
    floor: usize,
}

impl<'t> Side<'t> {
    fn new(text: &'t str, masks: &'t [Mask]) -> Self {
        Self { text, masks, at: 0, floor: 0 }
    }

    /// The mask that covers the place where the texts differ.
    fn mask(&mut self) -> Option<&'t Mask> {
        let past = self.masks.iter().take_while(|mask| mask.span.end <= self.at).count();
        self.masks = &self.masks[past..];
        self.masks
            .first()
            .filter(|mask| mask.span.start <= self.at && mask.span.start >= self.floor)
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }
}

fn align(left: &str, left_masks: &[Mask], right: &str, right_masks: &[Mask]) -> bool {
    let (mut left, mut right) = (Side::new(left, left_masks), Side::new(right, right_masks));
    let mut budget = SEARCHED_BYTES;
    loop {
        let common = common_prefix(left.rest(), right.rest());
        left.at += common;
        right.at += common;
        if left.rest().is_empty() && right.rest().is_empty() {
            return true;
        }
        let onward = if let Some(mask) = right.mask() {
            pass(mask, &mut right, &mut left, &mut budget)
        } else if let Some(mask) = left.mask() {
            pass(mask, &mut left, &mut right, &mut budget)
        } else {
            false
        };
        if !onward {
            return false;
        }
    }
}

/// The begin of a text, of at most so many bytes, cut at a character.
fn prefix(text: &str, mut most: usize) -> &str {
    most = most.min(text.len());
    while !text.is_char_boundary(most) {
        most -= 1;
    }
    &text[..most]
}

/// Bytes that both begin with, cut at a character.
fn common_prefix(left: &str, right: &str) -> usize {
    let mut common = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    while !left.is_char_boundary(common) || !right.is_char_boundary(common) {
        common -= 1;
    }
    common
}

/// Goes past a mask of `masked` and past what it hides of `open`; false where nothing fits.
fn pass(mask: &Mask, masked: &mut Side<'_>, open: &mut Side<'_>, budget: &mut usize) -> bool {
    let back = masked.at - mask.span.start;
    if open.at < open.floor + back {
        return false;
    }
    let from = open.at - back;
    let behind = &masked.text[mask.span.end..];
    let until = masked.masks.get(1).map_or(behind.len(), |next| next.span.start - mask.span.end);
    let literal = &behind[..until];
    let hidden = &open.text[from..];
    let most = if mask.word { ABBREVIATED_BYTES } else { HIDDEN_BYTES };
    let window = prefix(hidden, most + LITERAL_BYTES);
    let Some(left) = budget.checked_sub(window.len()) else { return false };
    *budget = left;
    let length = if until == behind.len() && hidden.ends_with(literal) {
        // The last mask: what is behind it ends the other text too.
        Some(hidden.len() - literal.len())
    } else if literal.is_empty() {
        None
    } else {
        // Where the other text has a mask further on, only the begin of this one comes again.
        let end = literal.char_indices().nth(ANCHOR_CHARS).map_or(literal.len(), |(end, _)| end);
        window.find(prefix(literal, LITERAL_BYTES)).or_else(|| window.find(&literal[..end]))
    };
    let Some(length) = length else { return false };
    let hidden = &hidden[..length];
    let fits = !hidden.is_empty()
        && length <= most
        && !(mask.word && hidden.contains(char::is_whitespace));
    masked.at = mask.span.end;
    masked.floor = masked.at;
    open.at = from + length;
    open.floor = open.at;
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(left: &str, right: &str) -> bool {
        let all = |text: &str| shapes(&SHAPES, text, 0..text.len()).collect::<Vec<_>>();
        let one = align(left, &all(left), right, &all(right));
        for [one_text, other] in [[left, right], [right, left]] {
            assert_eq!(align_shapes(one_text, other), one, "{left:?} {right:?}");
            let (head, tail) = ("a *** b...c\n", "\nd ***");
            let long = |text: &str| format!("{head}{text}{tail}");
            assert_eq!(align_shapes(&long(one_text), &long(other)), one, "{left:?} {right:?}");
        }
        one
    }

    #[test]
    fn a_mask_stands_for_what_it_hides() {
        assert!(equal("curl -H 'X: abcd1234efgh5678' url", "curl -H 'X: ***' url"));
        assert!(equal("key=sk-abc123456789wxyz.", "key=sk-abc...wxyz."));
        assert!(equal("a=secret b=other c", "a=[REDACTED] b=*** c"));
        assert!(equal("token: **bold1", "token: ***"));
        assert!(equal("ends in s3cret", "ends in ***"));
        assert!(equal("a=*** b=other", "a=secret b=***"));
        assert!(equal("é=geheim ü", "é=*** ü"));
        assert!(equal("rule *** stays", "rule *** stays"));
    }

    #[test]
    fn nothing_else_is_a_mask() {
        assert!(!equal("a b c", "a c"));
        assert!(!equal("key=secret url", "key=*** other"));
        assert!(!equal("to be or not", "to...not"), "dots hide no white space");
        assert!(!equal("to be", "to ... be"));
        assert!(!equal("key=", "key=***"), "a mask hides something");
        assert!(!equal(&"x".repeat(HIDDEN_BYTES + 1), "***"));
        assert!(!equal("abc", "abd"));
    }

    #[test]
    fn many_masks_cost_no_more_than_what_is_looked_through() {
        // Each mask fits where the next text is far away.
        let stored = "***abcXdef".repeat(500);
        let sent = format!("{}{}", "qabc***def".repeat(500), "x".repeat(200_000));
        let mut budget = SEARCHED_BYTES;
        let (masks, none) = (shapes(&SHAPES, &sent, 0..sent.len()).collect::<Vec<_>>(), Vec::new());
        assert!(!align(&stored, &none, &sent, &masks));
        let (mut masked, mut open) = (Side::new(&sent, &masks), Side::new(&stored, &none));
        (masked.at, open.at) = (masks[0].span.start, 4);
        pass(&masks[0], &mut masked, &mut open, &mut budget);
        assert!(SEARCHED_BYTES - budget <= HIDDEN_BYTES + LITERAL_BYTES);
        (masked.at, masked.masks, open.at, open.floor) = (masks[0].span.start, &masks, 4, 0);
        assert!(
            !pass(&masks[0], &mut masked, &mut open, &mut 0),
            "nothing is looked through for free"
        );
    }
}
