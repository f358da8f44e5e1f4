//! The message layer: every message that was part of a prompt or an answer, once, below what came
//! before it; and which chains of digests lead there.
//!
//! Records are threaded in when a request is matched, not when they are taken over: only then it is
//! known what counts as equal, and a session that is loaded and only read pays nothing.

use std::collections::HashMap;

use super::element::{reply_message, text_digest};
use super::fold::{Conversation, fold};
use super::path::{Leading, extend};
use super::piece::Pieces;
use super::{Digest, Element, Habits, Path};
use crate::id::TurnIndex;
use crate::record::{HistoryMode, TurnRecord};
use crate::rules::{RuleSet, Spot};
use crate::turn::{Message, Role, ToolCall};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StepIndex(u32);

/// One message below another.
#[derive(Debug)]
pub(super) struct Step {
    /// `None` for a root, which stands for the leading instructions.
    pub(super) parent: Option<StepIndex>,
    /// As it was sent, or sampled. Of a root: the leading instructions, joined.
    pub(super) message: Message,
    pub(super) continues: bool,
    pub(super) digest: Digest,
    pub(super) strict: Digest,
    pub(super) plain: Digest,
    pub(super) touched: Vec<u16>,
    /// The chain after it, and before the run that it is part of.
    chain: Digest,
    before: Digest,
    pub(super) children: Vec<StepIndex>,
    /// Turns whose answer ends here.
    pub(super) answers: Vec<TurnIndex>,
}

/// What is known of one chain.
#[derive(Debug, Default)]
pub(super) struct Point {
    /// Turns whose prompt ends here.
    pub(super) prompts: Vec<TurnIndex>,
    /// Turns whose answer ends here.
    pub(super) answers: Vec<TurnIndex>,
    pub(super) steps: Vec<StepIndex>,
}

/// Where a turn ended.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) step: StepIndex,
    pub(super) chain: Digest,
    /// The chain that its prompt ended with.
    pub(super) prompt: Digest,
    /// Nothing of its answer is seen in what the agent sends back.
    pub(super) silent: bool,
    /// Its answer. Answers of other turns may end in the same step.
    pub(super) reply: Message,
    /// The messages of its stretch, as they were sent.
    pub(super) stretch: Vec<Message>,
    /// What its tree hangs from.
    pub(super) root: StepIndex,
}

/// What threading takes of a record.
#[derive(Debug)]
pub(super) struct Waiting {
    turn: TurnIndex,
    parent: Option<TurnIndex>,
    root: Digest,
    joined: Option<Digest>,
    elements: Vec<Digest>,
    answer: Option<Digest>,
    messages: Vec<Message>,
    reply: Message,
}

impl Waiting {
    pub(super) fn new(record: &TurnRecord) -> Self {
        Self {
            turn: record.turn,
            parent: record.parent,
            root: record.root,
            joined: record.joined,
            elements: record.elements.clone(),
            answer: record.answer,
            messages: record.messages.clone(),
            reply: reply_message(&record.reply),
        }
    }
}

/// A record on its way in: the last step, and the request's own chain where that is another.
struct Thread {
    at: StepIndex,
    own: Option<Digest>,
}

/// Gives the calls before a stretch the ids by which its results name them. Agents make up ids of
/// their own, and the order of results goes by those; which call a result answers shows in the
/// digest that was recorded of it, which has the call's place in it.
fn name_calls(seed: &mut [Message], waiting: &Waiting, rules: &RuleSet) {
    // To write to a message is to copy it.
    if seed.iter().map(|message| message.tool_calls.len()).sum::<usize>() < 2 {
        return;
    }
    let mut calls: Vec<&mut ToolCall> =
        seed.iter_mut().flat_map(|message| &mut message.tool_calls).collect();
    let behind = waiting.messages.iter().take_while(|message| message.role != Role::Assistant);
    let mut recorded: Vec<Digest> =
        waiting.elements.iter().take(behind.clone().count()).copied().collect();
    let mut open: Vec<usize> = (0..calls.len()).collect();
    for (at, message) in behind.enumerate().filter(|(_, message)| message.role == Role::Tool) {
        let last = at + 1 == waiting.messages.len();
        let reading = rules.read(message, Spot { leading: false, last });
        let digest = |place: usize| text_digest(message, &reading.text, Some(place));
        let found = open.iter().enumerate().find_map(|(slot, place)| {
            let digest = digest(*place);
            let at = recorded.iter().position(|recorded| *recorded == digest)?;
            Some((slot, at))
        });
        if let (Some((slot, at)), Some(id)) = (found, &message.tool_call_id) {
            calls[open.remove(slot)].id.clone_from(id);
            recorded.swap_remove(at);
        }
    }
}

/// The message layer of a trajectory.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
    /// Children by what they are, so that nothing is held twice.
    index: HashMap<(Option<StepIndex>, Digest), StepIndex>,
    points: HashMap<Digest, Point>,
    /// By turn.
    places: Vec<Place>,
    waiting: Vec<Waiting>,
}

impl Steps {
    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
    }

    /// Threads what waits; how many messages were read for that.
    pub(super) fn catch_up(&mut self, habits: Habits<'_>, pieces: &mut Pieces) -> usize {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|waiting| self.thread(waiting, habits, pieces)).sum()
    }

    pub(super) fn step(&self, step: StepIndex) -> &Step {
        &self.steps[step.0 as usize]
    }

    pub(super) fn point(&self, chain: Digest) -> Option<&Point> {
        self.points.get(&chain)
    }

    pub(super) fn place(&self, turn: TurnIndex) -> Option<&Place> {
        self.places.get(turn.0 as usize)
    }

    /// An answer that comes back as it was is held once: in the agent's copy.
    pub(super) fn share(&mut self, turn: TurnIndex, path: &Path, matched: usize, sent: &[Message]) {
        let Some(last) = matched.checked_sub(1) else { return };
        let sent = &sent[path.elements[last].message];
        let Some(place) = self.places.get_mut(turn.0 as usize) else { return };
        if place.reply.is_copy_of(sent) || place.reply != *sent {
            return;
        }
        let step = &mut self.steps[place.step.0 as usize];
        if step.message.is_copy_of(&place.reply) {
            step.message.clone_from(sent);
        }
        place.reply.clone_from(sent);
    }

    /// The steps of the run of assistant messages that ends in this one; it alone where none does.
    pub(super) fn run(&self, step: StepIndex) -> Vec<StepIndex> {
        let mut run = vec![step];
        let mut at = step;
        while self.step(at).continues
            && let Some(parent) = self.step(at).parent
        {
            run.push(parent);
            at = parent;
        }
        run.reverse();
        run
    }

    fn thread(&mut self, waiting: Waiting, habits: Habits<'_>, pieces: &mut Pieces) -> usize {
        let parent = waiting.parent.and_then(|parent| self.place(parent));
        let parent = parent.map(|place| (place.step, place.root));
        let mut seed = parent.map_or_else(Vec::new, |(step, _)| self.seed(step));
        if habits.mode == HistoryMode::Sticky {
            name_calls(&mut seed, &waiting, habits.rules);
        }
        let mut messages: Vec<&Message> = seed.iter().chain(&waiting.messages).collect();
        let (reply_at, last) = (messages.len(), messages.len().saturating_sub(1));
        messages.push(&waiting.reply);
        let conversation = Conversation { first: 0, from_start: parent.is_none(), last };
        let mut folded = fold(conversation, messages.iter().copied(), habits, pieces);
        let (at, root) = match parent {
            Some((step, root)) => {
                folded.skip(folded.elements.iter().filter(|e| e.message < seed.len()).count());
                (step, root)
            }
            None => {
                let (leading, rest) = Leading::split(&mut folded.elements);
                folded.elements = rest;
                let root = self.root(waiting.root, &leading, &messages);
                (root, root)
            }
        };
        let (prompt, answer): (Vec<Element>, Vec<Element>) =
            folded.elements.into_iter().partition(|element| element.message != reply_at);
        let recorded = (prompt.len() == waiting.elements.len()).then_some(&waiting);
        let mut thread = Thread { at, own: waiting.joined };
        self.join(&thread, waiting.parent);
        for (place, mut element) in prompt.into_iter().enumerate() {
            element.digest = recorded.map_or(element.digest, |waiting| waiting.elements[place]);
            let message = messages[element.message];
            self.lengthen(&mut thread, element, message);
        }
        let prompt = self.step(thread.at).chain;
        for chain in [Some(prompt), thread.own].into_iter().flatten() {
            self.points.entry(chain).or_default().prompts.push(waiting.turn);
        }
        let silent = answer.is_empty();
        for mut element in answer {
            element.digest = recorded.and_then(|w| w.answer).unwrap_or(element.digest);
            self.lengthen(&mut thread, element, messages[reply_at]);
        }
        let chain = self.step(thread.at).chain;
        for chain in [Some(chain), thread.own].into_iter().flatten() {
            self.points.entry(chain).or_default().answers.push(waiting.turn);
        }
        self.steps[thread.at.0 as usize].answers.push(waiting.turn);
        let (read, Waiting { messages: stretch, reply, .. }) = (messages.len(), waiting);
        self.places.push(Place { step: thread.at, chain, prompt, silent, reply, stretch, root });
        read
    }

    /// An answer that is gone on from in the same breath is read along with its run, and results
    /// with the calls before them.
    fn seed(&self, step: StepIndex) -> Vec<Message> {
        match self.step(step).message.role {
            Role::Assistant => {
                let run = self.run(step).into_iter();
                run.map(|step| self.step(step).message.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Notes that a request's own chain joins a turn's.
    fn join(&mut self, thread: &Thread, parent: Option<TurnIndex>) {
        let (Some(own), Some(parent)) = (thread.own, parent) else { return };
        let point = self.points.entry(own).or_default();
        if !point.answers.contains(&parent) {
            point.answers.push(parent);
            point.steps.push(thread.at);
        }
    }

    fn lengthen(&mut self, thread: &mut Thread, element: Element, message: &Message) {
        thread.own = thread.own.map(|own| extend(own, element.digest));
        thread.at = self.add(thread.at, element, message);
        if let Some(own) = thread.own {
            let point = self.points.entry(own).or_default();
            if !point.steps.contains(&thread.at) {
                point.steps.push(thread.at);
            }
        }
    }

    fn root(&mut self, chain: Digest, leading: &Leading, messages: &[&Message]) -> StepIndex {
        let key = (None, extend(chain, leading.strict));
        if let Some(step) = self.index.get(&key) {
            return *step;
        }
        let message = match &messages[..leading.messages] {
            [alone] => (*alone).clone(),
            all => {
                let texts: Vec<&str> = all.iter().map(|message| message.content.as_str()).collect();
                Message::text(Role::System, texts.join("\n"))
            }
        };
        self.push(
            key,
            Step {
                parent: None,
                message,
                continues: false,
                digest: chain,
                strict: leading.strict,
                plain: leading.plain,
                touched: leading.touched.clone(),
                chain,
                before: chain,
                children: Vec::new(),
                answers: Vec::new(),
            },
        )
    }

    fn add(&mut self, parent: StepIndex, element: Element, message: &Message) -> StepIndex {
        let Element { digest, strict, plain, continues, touched, .. } = element;
        let key = (Some(parent), Digest::joined([strict, digest, plain]));
        if let Some(step) = self.index.get(&key) {
            return *step;
        }
        let above = self.step(parent);
        let before = if continues { above.before } else { above.chain };
        let step = self.push(
            key,
            Step {
                parent: Some(parent),
                message: message.clone(),
                continues,
                digest,
                strict,
                plain,
                touched,
                chain: extend(before, digest),
                before,
                children: Vec::new(),
                answers: Vec::new(),
            },
        );
        self.steps[parent.0 as usize].children.push(step);
        step
    }

    fn push(&mut self, key: (Option<StepIndex>, Digest), step: Step) -> StepIndex {
        let index = StepIndex(self.steps.len() as u32);
        self.points.entry(step.chain).or_default().steps.push(index);
        self.index.insert(key, index);
        self.steps.push(step);
        index
    }
}
