//! For tests: a vocabulary of single bytes, some added tokens and some longer words, and a way to
//! feed one text to a machine in every cut into tokens.
//!
//! In texts, `~` spells the character behind it with ordinary tokens: `~<think>` is no marker.

use super::{End, Parsed, Setting, machine};
use crate::id::TokenId;
use crate::render::{ControlText, Family, Markers, Tokenizer};
use crate::turn::Tool;

/// Ids below 256 are bytes, then come added tokens, then words, then what [`Fake::pieces`] needed.
#[derive(Clone)]
pub(super) struct Fake {
    tokens: Vec<Vec<u8>>,
    added: usize,
}

/// A part of a text: an added token, or one byte of plain text at this offset of the text.
enum Unit {
    Added(TokenId),
    Byte(u8, usize),
}

impl Fake {
    pub(super) fn new(added: &[&str], words: &[&str]) -> Self {
        let bytes = (0..=255_u8).map(|byte| vec![byte]);
        let longer = added.iter().chain(words).map(|word| word.as_bytes().to_vec());
        Self { tokens: bytes.chain(longer).collect(), added: added.len() }
    }

    /// Markers of a model with this vocabulary whose turns end with `close`.
    pub(super) fn markers(&self, close: &str) -> Markers {
        Markers {
            close: self.added(close).expect("an added token"),
            think_open: self.added("<think>"),
            think_close: self.added("</think>"),
            call_open: self.added("<tool_call>"),
            call_close: self.added("</tool_call>"),
            ends: self.added(close).into_iter().collect(),
        }
    }

    fn units(&self, text: &[u8]) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let fits = |id: &usize| rest.starts_with(&self.tokens[*id]);
            let longest =
                (256..256 + self.added).filter(fits).max_by_key(|&id| self.tokens[id].len());
            if let Some(id) = longest {
                units.push(Unit::Added(id as TokenId));
                at += self.tokens[id].len();
            } else {
                at += usize::from(rest[0] == b'~' && rest.len() > 1);
                units.push(Unit::Byte(text[at], at));
                at += 1;
            }
        }
        units
    }

    /// Ids of a text, plain text byte by byte.
    pub(super) fn bytes(&self, text: &[u8]) -> Vec<TokenId> {
        let id = |unit| match unit {
            Unit::Added(id) => id,
            Unit::Byte(byte, _) => TokenId::from(byte),
        };
        self.units(text).into_iter().map(id).collect()
    }

    /// Ids of a text, plain text by words where they fit.
    pub(super) fn words(&self, text: &[u8]) -> Vec<TokenId> {
        let bytes = self.bytes(text);
        let words = 256 + self.added..self.tokens.len();
        let mut ids = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let fits = |word: &[u8]| {
                let same = |(offset, &byte)| bytes.get(at + offset) == Some(&TokenId::from(byte));
                word.iter().enumerate().all(same)
            };
            let word = words.clone().find(|&id| fits(&self.tokens[id]));
            ids.push(word.map_or(bytes[at], |id| id as TokenId));
            at += word.map_or(1, |id| self.tokens[id].len());
        }
        ids
    }

    /// Ids of a text, each run of plain text one token but for cuts before these offsets.
    pub(super) fn pieces(&mut self, text: &[u8], cuts: &[usize]) -> Vec<TokenId> {
        self.pieces_cut(text, |at| cuts.contains(&at))
    }

    /// The same, with cuts where `cut` says so.
    pub(super) fn pieces_cut(&mut self, text: &[u8], cut: impl Fn(usize) -> bool) -> Vec<TokenId> {
        let mut ids = Vec::new();
        let mut run = Vec::new();
        for unit in self.units(text) {
            match unit {
                Unit::Byte(byte, at) => {
                    if cut(at) {
                        self.piece(&mut run, &mut ids);
                    }
                    run.push(byte);
                }
                Unit::Added(id) => {
                    self.piece(&mut run, &mut ids);
                    ids.push(id);
                }
            }
        }
        self.piece(&mut run, &mut ids);
        ids
    }

    fn piece(&mut self, run: &mut Vec<u8>, ids: &mut Vec<TokenId>) {
        if !run.is_empty() {
            ids.push(self.tokens.len() as TokenId);
            self.tokens.push(std::mem::take(run));
        }
    }
}

impl Tokenizer for Fake {
    fn encode(&self, _: &str, _: ControlText, _: &mut Vec<TokenId>) -> Result<(), String> {
        Err("not needed here".to_owned())
    }

    fn bytes_of(&self, id: TokenId) -> Option<&[u8]> {
        self.tokens.get(id as usize).map(Vec::as_slice)
    }

    fn added(&self, text: &str) -> Option<TokenId> {
        let added = &self.tokens[256..256 + self.added];
        added.iter().position(|word| word == text.as_bytes()).map(|at| 256 + at as TokenId)
    }

    fn size(&self) -> u32 {
        self.tokens.len() as u32
    }
}

/// A family under test.
pub(super) struct Case<'a> {
    pub(super) family: Family,
    pub(super) fake: Fake,
    /// Text of the token that ends a turn.
    pub(super) close: &'a str,
    /// The end of the prompt.
    pub(super) prompt: &'a str,
    pub(super) tools: &'a [Tool],
}

impl Case<'_> {
    /// The reply to these ids. `fake` knows them.
    pub(super) fn run(&self, fake: &Fake, ids: &[TokenId], stop_text: Option<&str>) -> Parsed {
        let (markers, prompt) = (fake.markers(self.close), fake.bytes(self.prompt.as_bytes()));
        let setting =
            Setting { markers: &markers, tokenizer: fake, prompt_tail: &prompt, tools: self.tools };
        let mut machine = machine(self.family, setting);
        ids.iter().for_each(|&id| machine.push(id));
        machine.finish(&End { stop_text, call_seed: "seed" })
    }

    /// The reply to this text, which is the same however the text is cut into tokens: by bytes, by
    /// words, in whole runs, and with one more cut at every place.
    pub(super) fn every_cut(&self, output: &str) -> Parsed {
        let output = output.as_bytes();
        let parsed = self.run(&self.fake, &self.fake.bytes(output), None);
        let shown = String::from_utf8_lossy(output);
        let words = self.run(&self.fake, &self.fake.words(output), None);
        assert_eq!(words, parsed, "by words: {shown}");
        let mut fake = self.fake.clone();
        for at in 0..output.len() {
            let ids = fake.pieces(output, &[at]);
            assert_eq!(self.run(&fake, &ids, None), parsed, "cut at {at}: {shown}");
            fake.tokens.truncate(self.fake.tokens.len());
        }
        parsed
    }
}

/// What is expected of a reply: reasoning, content, calls as `name arguments`, remarks. A leading
/// `!` among the remarks stands for `ill_formed`.
pub(super) type Expected<'a> = (Option<&'a str>, &'a str, &'a [&'a str], &'a str);

impl Case<'_> {
    /// Compares the reply to this text, in every cut, with what is expected.
    pub(super) fn check(&self, output: &str, expected: Expected<'_>) -> Parsed {
        let parsed = self.every_cut(output);
        compare(&parsed, output, expected);
        parsed
    }

    /// The same for an answer that a stop text ended.
    pub(super) fn check_stopped(&self, output: &str, stop: &str, expected: Expected<'_>) {
        let ids = self.fake.bytes(output.as_bytes());
        compare(&self.run(&self.fake, &ids, Some(stop)), output, expected);
    }
}

fn compare(parsed: &Parsed, output: &str, expected: Expected<'_>) {
    let reply = &parsed.reply;
    let calls: Vec<String> =
        reply.tool_calls.iter().map(|c| format!("{} {}", c.name, c.arguments)).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let sign = if reply.ill_formed { "!" } else { "" };
    let remarks = format!("{sign}{}", reply.remarks.join(" "));
    let got = (reply.reasoning.as_deref(), reply.content.as_str(), &calls[..], remarks.as_str());
    assert_eq!(got, expected, "{output}");
}
