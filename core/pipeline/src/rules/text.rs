//! One message, read under the rules that change what matching sees of it.

use std::borrow::Cow;
use std::ops::Range;

use super::set::Compiled;
use super::{Action, RuleSet};
use crate::planted::{self, Bug};
use crate::turn::{Message, Role};

/// Where a message stands in its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// Among the leading instructions.
    pub(crate) leading: bool,
    /// At the end.
    pub(crate) last: bool,
}

/// A message as matching sees it.
pub(crate) struct Reading<'t> {
    /// Its text, without overlays and with equal spans made equal.
    pub(crate) text: Cow<'t, str>,
    /// Texts that an overlay rule took out.
    pub(crate) overlays: Vec<&'t str>,
    /// Where these stand in the text as it was sent.
    pub(crate) spans: Vec<Range<usize>>,
    /// Numbers of the rules that changed something, ascending.
    pub(crate) touched: Vec<u16>,
}

impl RuleSet {
    /// Reads a message. What the model wrote is never changed.
    pub(crate) fn read<'t>(&self, message: &'t Message, spot: Spot) -> Reading<'t> {
        let mut reading = Reading {
            text: Cow::Borrowed(&message.content),
            overlays: Vec::new(),
            spans: Vec::new(),
            touched: Vec::new(),
        };
        if message.role == Role::Assistant {
            return reading;
        }
        let (mut cuts, mut touched) = (Vec::new(), Vec::new());
        for (number, rule) in self.rules().filter(|(_, rule)| rule.looks_at(message.role, spot)) {
            let overlay = match rule.action() {
                Action::Overlay if planted::on(Bug::OverlayInChain) => continue,
                Action::Overlay => true,
                Action::Same => false,
                Action::Strip | Action::Masked | Action::Off => continue,
            };
            let before = cuts.len();
            let found = |span: Range<usize>| (!span.is_empty()).then_some((span, number, overlay));
            match &rule.pattern {
                Some(pattern) if !rule.whole() => cuts.extend(
                    pattern.find_iter(&message.content).filter_map(|hit| found(hit.range())),
                ),
                Some(pattern) if !pattern.is_match(&message.content) => {}
                None if !overlay => {}
                _ => cuts.extend(found(0..message.content.len())),
            }
            if cuts.len() > before {
                touched.push(number);
            }
        }
        reading.touched = touched;
        if !cuts.is_empty() {
            self.cut(&message.content, cuts, &mut reading);
        }
        reading
    }

    /// A text without what these of its rules take out of the chain, to count how copies
    /// differ: spans that count as equal stay as they are.
    pub(crate) fn without_overlays<'t>(&self, text: &'t str, touched: &[u16]) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        let overlay = |(number, rule): &(u16, &Compiled)| {
            rule.action() == Action::Overlay && touched.contains(number)
        };
        for (_, rule) in self.rules().filter(overlay) {
            let Some(pattern) = &rule.pattern else { continue };
            if !rule.whole() && pattern.is_match(&text) {
                text = Cow::Owned(pattern.replace_all(&text, "").into_owned());
            }
        }
        text
    }

    /// Takes spans out; those of `same` rules leave the rule's name behind. Of spans that overlap
    /// the one that begins first counts.
    fn cut<'t>(
        &self,
        text: &'t str,
        mut cuts: Vec<(Range<usize>, u16, bool)>,
        reading: &mut Reading<'t>,
    ) {
        cuts.sort_by_key(|(span, _, _)| (span.start, std::cmp::Reverse(span.end)));
        let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
        for (span, number, overlay) in cuts {
            if span.start < at {
                continue;
            }
            kept.push_str(&text[at..span.start]);
            at = span.end;
            if overlay {
                reading.overlays.push(&text[span.clone()]);
                reading.spans.push(span);
            } else {
                kept.extend(["\0", self.name(number).unwrap_or_default(), "\0"]);
            }
        }
        kept.push_str(&text[at..]);
        reading.text = Cow::Owned(kept);
    }
}
