//! What is known of a model, for people: `rollgate model check` prints it.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Model;
use super::class::Counterexample;
use super::probe::pinned;
use crate::id::TokenId;
use crate::parse;
use crate::turn::{Message, Role};

/// A token, as text and id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Marker {
    /// Its text.
    pub text: String,
    /// Its id.
    pub id: TokenId,
}

/// What the probe found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProbeReport {
    /// Name the model is served under.
    pub name: String,
    /// What the template does to history.
    pub class: String,
    /// Model family.
    pub family: String,
    /// Parser of its output.
    pub parser: String,
    /// The token that closes a turn.
    pub close: Marker,
    /// What the template writes between that token and the next turn.
    pub separator: String,
    /// What a prompt ends with, behind a user's message.
    pub generation_prompt: String,
    /// Tokens that end a generation.
    pub stop: Vec<Marker>,
    /// Tokens around reasoning.
    pub reasoning: Vec<Marker>,
    /// Tokens around tool calls.
    pub calls: Vec<Marker>,
    /// Switches of the template that are on, since they keep history as it was.
    pub switches: Map<String, Value>,
    /// blake3 of `tokenizer.json` in hex.
    pub tokenizer_digest: String,
    /// Longest prompt plus answer, in tokens.
    pub max_context: u32,
    /// Ids are below this.
    pub vocab_size: u32,
    /// The first conversation on which the template changes history.
    pub counterexample: Option<Counterexample>,
    /// What else a person should know.
    pub notes: Vec<String>,
}

impl Model {
    /// What was found out about the model when it was loaded.
    pub fn report(&self) -> ProbeReport {
        let marker = |id: TokenId| {
            let mut text = Vec::new();
            self.detokenize(&[id], &mut text);
            Marker { text: String::from_utf8_lossy(&text).into_owned(), id }
        };
        let markers = |ids: [Option<TokenId>; 2]| ids.into_iter().flatten().map(marker).collect();
        let (separator, generation_prompt) = self.around_a_turn().unwrap_or_default();
        ProbeReport {
            name: self.name.clone(),
            class: self.class.name().to_owned(),
            family: self.family.name().to_owned(),
            parser: parse::version(self).to_owned(),
            close: marker(self.markers.close),
            separator,
            generation_prompt,
            stop: self.markers.ends.iter().copied().map(marker).collect(),
            reasoning: markers([self.markers.think_open, self.markers.think_close]),
            calls: markers([self.markers.call_open, self.markers.call_close]),
            switches: self.constants.switches.clone(),
            tokenizer_digest: self.tokenizer_digest.clone(),
            max_context: self.max_context,
            vocab_size: self.vocab_size,
            counterexample: self.counterexample.clone(),
            notes: self.notes.clone(),
        }
    }

    /// What comes between a turn and the next, and what asks for an answer.
    fn around_a_turn(&self) -> Option<(String, String)> {
        const TEXT: &str = "between-turns";
        let new = [Message::text(Role::User, TEXT)];
        let text = self.after_turn(&[], &new, &[], &pinned()).ok()?.plain_text();
        let separator = self.control.find(&text).map_or(text.as_str(), |(at, _, _)| &text[..at]);
        let behind = &text[text.find(TEXT)? + TEXT.len()..];
        // The end of the user's turn is no part of it, where that has one of its own.
        let prompt = self.turn_end.closers.iter().find_map(|(close, _)| {
            let (_, prompt) = behind.split_once(close.as_str())?;
            Some(prompt.strip_prefix(separator).unwrap_or(prompt))
        });
        Some((separator.to_owned(), prompt.unwrap_or(behind).to_owned()))
    }
}
