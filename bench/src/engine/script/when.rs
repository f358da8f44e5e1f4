//! When a reply is given: what its prompt has, and how often that was so.

use serde::Deserialize;

/// When a reply is given. What is said must all hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Texts that the prompt has, control tokens written out.
    pub prompt_contains: Parts,
    /// Texts that its last message has: the last one before the turn that is asked for.
    pub last_contains: Parts,
    /// Texts that its system message has, with which many templates list the tools.
    pub system_contains: Parts,
    /// Texts that the prompt does not have.
    pub without: Parts,
    /// How many assistant turns the prompt has.
    pub turn: Option<u32>,
    /// Of the prompts for which all the above holds only the n-th, from 1. Equal prompts count once.
    pub nth: Option<u32>,
    /// Of these prompts only those after the n-th.
    pub after: Option<u32>,
}

impl When {
    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        let texts =
            [&self.prompt_contains, &self.last_contains, &self.system_contains, &self.without];
        texts.iter().all(|parts| parts.0.is_empty()) && self.turn.is_none() && !self.counts()
    }

    /// Whether it matters how many prompts there were.
    pub(in crate::engine) fn counts(&self) -> bool {
        self.nth.is_some() || self.after.is_some()
    }

    /// Whether the n-th of its prompts, from 1, is meant.
    pub(in crate::engine) fn means(&self, number: u32) -> bool {
        self.nth.is_none_or(|nth| nth == number) && self.after.is_none_or(|after| number > after)
    }
}

/// Texts, written as one or as a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Written")]
pub struct Parts(pub Vec<String>);

impl Parts {
    /// Whether all of them are in the text, which is only made when there are some.
    pub(in crate::engine) fn all_in<'a>(&self, text: impl FnOnce() -> &'a str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let text = text();
        self.0.iter().all(|part| text.contains(part))
    }

    /// Whether none of them is in the text.
    pub(in crate::engine) fn none_in<'a>(&self, text: impl FnOnce() -> &'a str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let text = text();
        !self.0.iter().any(|part| text.contains(part))
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum Written {
    One(String),
    Many(Vec<String>),
}

impl From<Written> for Parts {
    fn from(written: Written) -> Self {
        Parts(match written {
            Written::One(one) => vec![one],
            Written::Many(many) => many,
        })
    }
}
