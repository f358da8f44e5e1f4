//! What must hold of the journals when all is over.

use std::collections::{BTreeMap, BTreeSet};

use rollgate_pipeline::id::{TokenId, TurnIndex};
use rollgate_pipeline::record::{Frames, Record, Tail, TurnRecord};
use rollgate_pipeline::sample::{Attempt, build};
use rollgate_pipeline::turn::Finish;
use rollgate_shards::sim::file;

use crate::agent::mark_of;
use crate::ledger::{Generation, Ledger, numbers};
use crate::stage::{Got, SessionOf, Stage, decode};

/// Whether a whole frame of a journal holds this text. Cheap: frames are told by their lengths.
pub fn holds(mut journal: &[u8], text: &str) -> bool {
    while let Some((head, _)) = journal.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(payload) = journal.get(16..16 + length).filter(|_| head[..4] == *b"RGJ1") else {
            return false;
        };
        if payload.windows(text.len()).any(|window| window == text.as_bytes()) {
            return true;
        }
        journal = &journal[16 + length..];
    }
    false
}

/// Checks every journal of the run.
pub fn journals(stage: &Stage) {
    let sessions: Vec<_> = stage.sessions.borrow().clone();
    for session in sessions {
        let Some(bytes) = file(&session.path) else {
            if !session.lost.get() {
                stage.broke(format!("session {} has no journal", session.number));
            }
            continue;
        };
        match Frames::new(&bytes).read_all() {
            Ok((records, tail)) => {
                // A session that nobody asked for since the last end still has its torn tail.
                if tail != Tail::Whole && stage.ended.get() == 0 && !stage.may_tear() {
                    stage.broke(format!("session {} ends torn: {tail:?}", session.number));
                }
                Journal::new(stage, &session, &records).check();
            }
            Err(error) => stage.broke(format!("session {}: {error}", session.number)),
        }
    }
}

impl Stage {
    fn may_tear(&self) -> bool {
        self.plan.faults.full_disk > 0
    }
}

struct Journal<'a> {
    stage: &'a Stage,
    session: &'a SessionOf,
    records: &'a [Record],
    turns: Vec<&'a TurnRecord>,
}

impl<'a> Journal<'a> {
    fn new(stage: &'a Stage, session: &'a SessionOf, records: &'a [Record]) -> Self {
        let turn = |record: &'a Record| match record {
            Record::Turn(turn) => Some(&**turn),
            _ => None,
        };
        Self { stage, session, records, turns: records.iter().filter_map(turn).collect() }
    }

    fn broke(&self, what: impl std::fmt::Display) {
        self.stage.broke(format!("session {}: {what}", self.session.number));
    }

    fn check(&self) {
        self.nothing_follows_the_seal();
        let ledger = self.stage.ledger.borrow();
        for turn in &self.turns {
            self.ids_are_the_engines(turn, &ledger);
            self.texts_are_its_own(turn);
        }
        self.answers_are_here();
        self.each_ask_is_one_turn();
        self.missed_answers_are_told(&ledger);
        self.samples_are_sound();
    }

    fn nothing_follows_the_seal(&self) {
        let seal = self.records.iter().position(|record| matches!(record, Record::Sealed(_)));
        let after = self.records.iter().skip(seal.unwrap_or(usize::MAX));
        let turns = after.filter(|record| matches!(record, Record::Turn(_))).count();
        if turns > 0 {
            self.broke(format!("{turns} turns behind the seal"));
        }
    }

    /// Prompt and answer of a turn are what an engine was sent and what it sampled.
    fn ids_are_the_engines(&self, turn: &TurnRecord, ledger: &Ledger) {
        let at = turn.turn.0;
        let prompt = self.prompt(turn);
        // One that was cut before its number came is known by what it was asked.
        let cut = |it: &&Generation| it.prompt == prompt && it.ids.starts_with(&turn.ids);
        let generation = match numbers(&decode(&turn.ids)).first() {
            Some(number) => ledger.generations.get(number),
            None => ledger.generations.values().find(cut),
        };
        let Some(generation) = generation else {
            return self.broke(format!("turn {at} was sampled by nobody"));
        };
        if generation.session != self.session.id.to_string() {
            self.broke(format!("turn {at} was sampled for {}", generation.session));
        }
        let whole = match turn.finish {
            Finish::Stop => turn.ids == generation.ids,
            _ => generation.ids.starts_with(&turn.ids),
        };
        if !whole || turn.logprobs.len() != turn.ids.len() {
            let (has, sampled) = (turn.ids.len(), generation.ids.len());
            self.broke(format!("turn {at} has {has} ids that are not the {sampled} sampled ones"));
        }
        if prompt != generation.prompt {
            self.broke(format!("turn {at}: the engine was sent another prompt than is recorded"));
        }
    }

    fn prompt(&self, turn: &TurnRecord) -> Vec<TokenId> {
        let parent = turn.parent.and_then(|TurnIndex(parent)| self.turns.get(parent as usize));
        let mut ids = parent.map_or_else(Vec::new, |parent| {
            let mut ids = self.prompt(parent);
            ids.extend(&parent.ids);
            ids
        });
        ids.extend(&turn.stretch);
        ids
    }

    fn texts_are_its_own(&self, turn: &TurnRecord) {
        let text = String::from_utf8_lossy(&decode(&self.prompt(turn))).into_owned();
        let marks: BTreeSet<&str> = text
            .match_indices("worker-")
            .filter_map(|(at, _)| text[at..].split(' ').next())
            .collect();
        let own = self.session.mark();
        let foreign: Vec<_> =
            marks.into_iter().filter(|mark| !mark.starts_with(own.as_str())).collect();
        if !foreign.is_empty() {
            self.broke(format!("turn {} holds words of {foreign:?}", turn.turn.0));
        }
    }

    /// Every answer that an agent has whole is one turn.
    fn answers_are_here(&self) {
        let mut here: BTreeMap<u64, (u32, String)> = BTreeMap::new();
        for turn in &self.turns {
            for number in numbers(turn.reply.content.as_bytes()) {
                let (times, text) = here.entry(number).or_default();
                *times += 1;
                text.clone_from(&turn.reply.content);
            }
        }
        let got = self.stage.got.borrow();
        for got in got.iter().filter(|got| got.session == self.session.number) {
            let Got { number, ask, content, .. } = got;
            match here.get(number) {
                Some((1, text)) if text == content => {}
                Some((1, text)) => {
                    self.broke(format!("answer {number}: {content:?}, not {text:?}"))
                }
                None if self.unpromised(*number) => {}
                None => self.broke(format!("the answer {number} to ask {ask} is lost")),
                Some((times, _)) => self.broke(format!("answer {number} is {times} turns")),
            }
        }
        for got in got.iter().filter(|got| got.session != self.session.number) {
            if here.contains_key(&got.number) {
                self.broke(format!("answer {} went to session {}", got.number, got.session));
            }
        }
    }

    fn unpromised(&self, number: u64) -> bool {
        let ledger = self.stage.ledger.borrow();
        let shown_ns = ledger.shown.get(&number);
        shown_ns.is_some_and(|shown_ns| *shown_ns <= self.stage.unpromised_ns.get())
    }

    /// What an agent asked again, having left before it had the answer, was sampled once.
    fn each_ask_is_one_turn(&self) {
        let asks = self.stage.asks.borrow();
        let ledger = self.stage.ledger.borrow();
        let mine = asks.iter().enumerate().filter(|(_, ask)| ask.session == self.session.number);
        for (number, ask) in mine.filter(|(_, ask)| ask.once && !ask.sibling) {
            if !self.stage.plan.calm || self.session.closing.get() {
                continue;
            }
            let mark = mark_of(number as u64);
            let asked = |turn: &&&TurnRecord| {
                let last = turn.messages.last();
                last.is_some_and(|last| last.content.contains(&mark))
                    && turn.finish != Finish::Abort
            };
            let turns: Vec<_> = self.turns.iter().filter(asked).collect();
            // Who closes in order while its answer is on the way may have read it: nobody can tell.
            let shown = turns.iter().flat_map(|turn| numbers(turn.reply.content.as_bytes()));
            let shown: Vec<u64> =
                shown.filter_map(|number| ledger.shown.get(&number).copied()).collect();
            let near = |left: &u64| shown.iter().any(|at| at.abs_diff(*left) < 300_000_000);
            if turns.len() > 1 && !ask.left.iter().any(near) {
                self.broke(format!("ask {number} is {} turns", turns.len()));
            }
        }
    }

    /// An answer that was not even begun to be written is called missed.
    fn missed_answers_are_told(&self, ledger: &Ledger) {
        if !self.stage.plan.calm || self.session.closing.get() {
            return;
        }
        let mut whole: BTreeMap<TurnIndex, bool> = BTreeMap::new();
        for record in self.records {
            if let Record::Delivery(delivery) = record {
                whole.insert(delivery.turn, delivery.whole);
            }
        }
        for turn in self.turns.iter().filter(|turn| turn.finish == Finish::Stop) {
            let found = numbers(turn.reply.content.as_bytes());
            let shown = found.iter().any(|number| ledger.shown.contains_key(number));
            if !found.is_empty() && !shown && whole.get(&turn.turn) != Some(&false) {
                self.broke(format!(
                    "turn {} was shown to nobody, and nothing says so",
                    turn.turn.0
                ));
            }
        }
    }

    /// Every sampled token is trained once, and the samples agree with what engines were sent.
    fn samples_are_sound(&self) {
        let attempt = Attempt {
            task_id: String::new(),
            group_id: String::new(),
            attempt: 0,
            siblings: 1,
            agent: String::new(),
            outcome: None,
        };
        for sample in build(self.records, &attempt) {
            let reasons = sample.health.reasons();
            if !reasons.is_empty() {
                self.broke(format!("sample {} is not clean: {reasons:?}", sample.segment));
            }
        }
    }
}
