//! Messages to elements.
//!
//! What is known while folding is nothing at all where an answer begins behind a message that left
//! nothing open ([`Mark::clean`]): from there on a longer request can be folded alone.

use std::ops::Range;

use super::element::{Run, add_bytes, is_empty, place_of_call};
use super::piece::{Piece, Pieces};
use super::{Digest, Element, Habits};
use crate::record::HistoryMode;
use crate::rules::Spot;
use crate::turn::{Message, Role, ToolCall};

/// A text that is shown to the model and is no part of the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Overlay {
    /// Index of the message that holds it.
    pub(super) message: usize,
    /// Where it stands in that message's text.
    pub(super) span: Range<usize>,
}

/// How things stand behind a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Elements so far.
    pub(super) elements: usize,
    /// Nothing is open: no run of assistant messages, no overlay, no silence.
    pub(super) clean: bool,
}

/// Messages, folded.
#[derive(Default)]
pub(super) struct Folded {
    pub(super) elements: Vec<Element>,
    pub(super) overlays: Vec<Overlay>,
    /// First overlay message behind the last element.
    pub(super) tail: Option<usize>,
    /// One for each message.
    pub(super) marks: Vec<Mark>,
}

impl Folded {
    /// Takes away the first elements.
    pub(super) fn skip(&mut self, elements: usize) {
        self.elements.drain(..elements);
    }
}

/// Where the messages to fold stand.
#[derive(Clone, Copy)]
pub(super) struct Conversation {
    /// Index of the first one.
    pub(super) first: usize,
    /// Whether the request begins with it.
    pub(super) from_start: bool,
    /// Index of the message that the request ended in.
    pub(super) last: usize,
}

/// Folds messages to elements.
pub(super) fn fold<'m>(
    conversation: Conversation,
    messages: impl Iterator<Item = &'m Message>,
    habits: Habits<'_>,
    pieces: &mut Pieces,
) -> Folded {
    let mut fold = Fold::new(habits, pieces);
    let mut leading = conversation.from_start;
    for (at, message) in (conversation.first..).zip(messages) {
        leading &= matches!(message.role, Role::System | Role::Developer);
        let spot = Spot { leading, last: at == conversation.last };
        match habits.mode {
            HistoryMode::Faithful => fold.exact(at, message),
            HistoryMode::Sticky if message.role == Role::Assistant => fold.assistant(at, message),
            HistoryMode::Sticky => fold.text(at, message, spot),
        }
        let clean = fold.run.is_empty() && fold.pending.is_none() && !fold.silence;
        let elements = fold.folded.elements.len();
        fold.folded.marks.push(Mark { elements, clean });
    }
    if habits.mode == HistoryMode::Sticky
        && let Some(rule) = habits.rules.results_order()
    {
        order_results(&mut fold.folded.elements, &fold.places, rule);
    }
    fold.folded.tail = fold.pending;
    fold.folded
}

struct Fold<'m, 'h> {
    habits: Habits<'h>,
    pieces: &'h mut Pieces,
    folded: Folded,
    /// Where the call of each element that is a result stands, if it is known.
    places: Vec<Option<usize>>,
    /// Messages of the run of the assistant that is open, and what they say together, from the
    /// second one on that says anything.
    run: Vec<&'m Message>,
    spoken: bool,
    whole: Option<Run>,
    calls: Vec<&'m ToolCall>,
    results: usize,
    /// First overlay message since the last element, digests of their texts, rules that found them.
    pending: Option<usize>,
    over: blake3::Hasher,
    touched: Vec<u16>,
    silence: bool,
}

impl<'m, 'h> Fold<'m, 'h> {
    fn new(habits: Habits<'h>, pieces: &'h mut Pieces) -> Self {
        Self {
            habits,
            pieces,
            folded: Folded::default(),
            places: Vec::new(),
            run: Vec::new(),
            spoken: false,
            whole: None,
            calls: Vec::new(),
            results: 0,
            pending: None,
            over: blake3::Hasher::new(),
            touched: Vec::new(),
            silence: false,
        }
    }

    fn exact(&mut self, at: usize, message: &Message) {
        let piece = self.pieces.exact(message);
        self.push(element(at, message.role, piece), None);
    }

    fn assistant(&mut self, at: usize, message: &'m Message) {
        let continues = self.spoken;
        self.run.push(message);
        if is_empty(message) {
            self.silence = true;
            self.whole.iter_mut().for_each(|whole| whole.push(message));
            return;
        }
        self.spoken = true;
        if !continues {
            self.calls.clear();
        }
        self.results = 0;
        self.calls.extend(&message.tool_calls);
        let mut piece = self.pieces.answer(message);
        if continues {
            let run = &self.run;
            let whole = self.whole.get_or_insert_with(|| {
                let mut whole = Run::default();
                run[..run.len() - 1].iter().for_each(|part| whole.push(part));
                whole
            });
            whole.push(message);
            piece.digest = whole.digest();
            piece.plain = piece.digest;
        }
        self.push(Element { continues, ..element(at, Role::Assistant, piece) }, None);
    }

    fn text(&mut self, at: usize, message: &Message, spot: Spot) {
        let called = match message.role {
            Role::Tool => place_of_call(message, &self.calls),
            _ => None,
        };
        let place = (message.role == Role::Tool).then(|| called.unwrap_or(self.results));
        let mut piece = self.pieces.text(self.habits.rules, message, spot, place);
        let overlays = piece.overlays.drain(..);
        let before = self.folded.overlays.len();
        self.folded.overlays.extend(overlays.map(|span| Overlay { message: at, span }));
        if piece.blank && message.role != Role::Tool {
            if self.folded.overlays.len() > before {
                self.pending.get_or_insert(at);
                add_bytes(&mut self.over, message.content.as_bytes());
                self.touched.extend(piece.touched);
            }
            return;
        }
        self.results += usize::from(message.role == Role::Tool);
        self.push(element(at, message.role, piece), called);
        self.run.clear();
        (self.spoken, self.whole) = (false, None);
    }

    fn push(&mut self, mut element: Element, place: Option<usize>) {
        if let Some(first) = self.pending.take() {
            element.first_message = first;
            element.plain = mixed(element.plain, Digest::of(&self.over));
            element.touched.append(&mut self.touched);
            self.over = blake3::Hasher::new();
        }
        element.after_silence = std::mem::take(&mut self.silence);
        self.folded.elements.push(element);
        self.places.push(place);
    }
}

fn element(message: usize, role: Role, piece: Piece) -> Element {
    Element {
        digest: piece.digest,
        role,
        continues: false,
        first_message: message,
        message,
        after_silence: false,
        strict: piece.strict,
        plain: piece.plain,
        touched: piece.touched,
    }
}

fn mixed(left: Digest, right: Digest) -> Digest {
    super::path::extend(left, right)
}

/// Puts results that follow each other into the order of their calls. What they are part of keeps
/// its place in the request.
fn order_results(elements: &mut [Element], places: &[Option<usize>], rule: u16) {
    let mut at = 0;
    while at < elements.len() {
        let results = elements[at..].iter().take_while(|e| e.role == Role::Tool).count();
        let run = at..at + results;
        at += results.max(1);
        let Some(places) = places[run.clone()].iter().copied().collect::<Option<Vec<_>>>() else {
            continue;
        };
        if places.is_sorted() {
            continue;
        }
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|result| places[*result]);
        let moved: Vec<Element> = order
            .iter()
            .enumerate()
            .map(|(slot, from)| {
                let mut element = elements[run.start + from].clone();
                element.first_message = elements[run.start + slot].first_message;
                if slot != *from {
                    element.plain = mixed(element.plain, element.plain);
                    element.touched.push(rule);
                }
                element
            })
            .collect();
        elements[run].clone_from_slice(&moved);
    }
}
