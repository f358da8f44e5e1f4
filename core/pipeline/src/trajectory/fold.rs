//! Messages to elements.

use super::element::{Run, add_bytes, is_empty, place_of_call, strict_digest, text_digest};
use super::{Digest, Element, Habits};
use crate::record::HistoryMode;
use crate::rules::Spot;
use crate::turn::{Message, Role, ToolCall};

/// A text that is shown to the model and is no part of the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Overlay {
    /// Index of the message that holds it.
    pub(super) message: usize,
    pub(super) text: String,
}

/// Messages, folded.
#[derive(Default)]
pub(super) struct Folded {
    pub(super) elements: Vec<Element>,
    pub(super) overlays: Vec<Overlay>,
    /// First overlay message behind the last element.
    pub(super) tail: Option<usize>,
}

impl Folded {
    /// Takes away the first elements.
    pub(super) fn skip(&mut self, elements: usize) {
        self.elements.drain(..elements);
    }
}

/// What to fold.
pub(super) struct Conversation<'m> {
    pub(super) messages: &'m [&'m Message],
    /// Whether they begin where the request does.
    pub(super) from_start: bool,
    /// Index of the message that the request ended in.
    pub(super) last: usize,
}

/// Folds messages to elements.
pub(super) fn fold(conversation: &Conversation<'_>, habits: Habits<'_>) -> Folded {
    let mut fold = Fold::new(habits);
    let mut leading = conversation.from_start;
    for (at, message) in conversation.messages.iter().enumerate() {
        leading &= matches!(message.role, Role::System | Role::Developer);
        let spot = Spot { leading, last: at == conversation.last };
        match habits.mode {
            HistoryMode::Faithful => fold.exact(at, message),
            HistoryMode::Sticky if message.role == Role::Assistant => fold.assistant(at, message),
            HistoryMode::Sticky => fold.text(at, message, spot),
        }
    }
    if habits.mode == HistoryMode::Sticky
        && let Some(rule) = habits.rules.results_order()
    {
        order_results(&mut fold.folded.elements, &fold.places, rule);
    }
    fold.folded.tail = fold.pending;
    fold.folded
}

struct Fold<'m> {
    habits: Habits<'m>,
    folded: Folded,
    /// Where the call of each element that is a result stands, if it is known.
    places: Vec<Option<usize>>,
    run: Option<Run>,
    calls: Vec<&'m ToolCall>,
    results: usize,
    /// First overlay message since the last element, digests of their texts, rules that found them.
    pending: Option<usize>,
    over: blake3::Hasher,
    touched: Vec<u16>,
    silence: bool,
}

impl<'m> Fold<'m> {
    fn new(habits: Habits<'m>) -> Self {
        Self {
            habits,
            folded: Folded::default(),
            places: Vec::new(),
            run: None,
            calls: Vec::new(),
            results: 0,
            pending: None,
            over: blake3::Hasher::new(),
            touched: Vec::new(),
            silence: false,
        }
    }

    fn exact(&mut self, at: usize, message: &'m Message) {
        let strict = strict_digest(message);
        let evidence = match message.role {
            Role::Assistant => {
                let mut run = Run::default();
                run.push(message);
                run.evidence()
            }
            _ => Default::default(),
        };
        self.push(Element { evidence, ..element(at, message.role, strict, strict) }, None);
    }

    fn assistant(&mut self, at: usize, message: &'m Message) {
        let run = self.run.get_or_insert_default();
        let continues = !run.is_empty();
        run.push(message);
        if is_empty(message) {
            self.silence = true;
            return;
        }
        if !continues {
            self.calls.clear();
        }
        self.results = 0;
        self.calls.extend(&message.tool_calls);
        let (digest, evidence) = (run.digest(), run.evidence());
        let element = element(at, Role::Assistant, digest, strict_digest(message));
        self.push(Element { continues, evidence, ..element }, None);
    }

    fn text(&mut self, at: usize, message: &'m Message, spot: Spot) {
        let reading = self.habits.rules.read(message, spot);
        for text in &reading.overlays {
            self.folded.overlays.push(Overlay { message: at, text: (*text).to_owned() });
        }
        let empty = reading.text.trim().is_empty() && message.media_dropped == 0;
        if empty && message.role != Role::Tool {
            if !reading.overlays.is_empty() {
                self.pending.get_or_insert(at);
                add_bytes(&mut self.over, message.content.as_bytes());
                self.touched.extend(reading.touched);
            }
            return;
        }
        let (place, called) = match message.role {
            Role::Tool => {
                let called = place_of_call(message, &self.calls);
                self.results += 1;
                (Some(called.unwrap_or(self.results - 1)), called)
            }
            _ => (None, None),
        };
        let digest = text_digest(message, &reading.text, place);
        let plain = match reading.touched.is_empty() {
            true => digest,
            false => text_digest(message, &message.content, place),
        };
        let element = element(at, message.role, digest, strict_digest(message));
        self.push(Element { plain, touched: reading.touched, ..element }, called);
        self.run = None;
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

fn element(message: usize, role: Role, digest: Digest, strict: Digest) -> Element {
    Element {
        digest,
        role,
        continues: false,
        first_message: message,
        message,
        evidence: Default::default(),
        after_silence: false,
        strict,
        plain: digest,
        touched: Vec::new(),
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
