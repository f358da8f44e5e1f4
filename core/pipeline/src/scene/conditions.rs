//! The conditions of a rule with their patterns compiled.

use std::sync::atomic::{AtomicU32, Ordering};

use regex::{Regex, RegexBuilder};

use super::facts::{Facts, Said};
use super::{SceneError, When};
use crate::turn::{Purpose, ReplyForm};

/// Regular expressions may take this many bytes compiled.
const PATTERN_BYTES: usize = 1 << 20;

/// A pattern, and a number that no other one has: what it found is remembered by it.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    pub(super) number: u32,
}

impl Pattern {
    fn new(regex: Regex) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self { regex, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Conditions, checked and compiled.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    when: When,
    headers: Vec<(String, Regex)>,
    no_headers: Vec<String>,
    model: Option<Pattern>,
    system: Option<Pattern>,
    no_system: Option<Pattern>,
    first_user: Option<Pattern>,
    no_first_user: Option<Pattern>,
    last_user: Option<Pattern>,
    no_last_user: Option<Pattern>,
    skip_user: Option<Pattern>,
    last: Option<Pattern>,
    format: Option<Pattern>,
}

impl Conditions {
    /// `name` is that of the rule, for messages.
    pub(super) fn new(name: &str, when: &When) -> Result<Self, SceneError> {
        never(name, when)?;
        let one = |key: &str, pattern: &str| {
            RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
                let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                SceneError::Pattern { name: name.to_owned(), key: key.to_owned(), reason }
            })
        };
        let text = |key: &str, pattern: &Option<String>| {
            let regex = pattern.as_ref().map(|pattern| one(key, pattern)).transpose()?;
            Ok::<_, SceneError>(regex.map(Pattern::new))
        };
        let header = |(name, pattern): (&String, &String)| {
            Ok((name.to_ascii_lowercase(), one(&format!("header.{name}"), pattern)?))
        };
        Ok(Self {
            headers: when.header.iter().map(header).collect::<Result<_, _>>()?,
            no_headers: when.no_header.iter().map(|name| name.to_ascii_lowercase()).collect(),
            model: text("model", &when.model)?,
            system: text("system", &when.system)?,
            no_system: text("no_system", &when.no_system)?,
            first_user: text("first_user", &when.first_user)?,
            no_first_user: text("no_first_user", &when.no_first_user)?,
            last_user: text("last_user", &when.last_user)?,
            no_last_user: text("no_last_user", &when.no_last_user)?,
            skip_user: text("skip_user", &when.skip_user)?,
            last: text("last", &when.last)?,
            format: text("format", &when.format)?,
            when: when.clone(),
        })
    }

    /// Whether they look at the leading instructions.
    pub(super) fn read_instructions(&self) -> bool {
        self.system.is_some() || self.no_system.is_some()
    }

    /// Whether all of them hold: what costs least is asked first.
    pub(super) fn hold(&self, facts: &Facts<'_>) -> bool {
        self.structure_holds(facts) && self.headers_hold(facts) && self.texts_hold(facts)
    }

    fn structure_holds(&self, facts: &Facts<'_>) -> bool {
        let (when, evidence) = (&self.when, facts.evidence);
        let asked = evidence.asked;
        let tools = asked.tools.len() as u32;
        let is = |want: Option<bool>, fact: bool| want.is_none_or(|want| want == fact);
        let least = |want: Option<u32>, fact: u32| want.is_none_or(|want| fact >= want);
        let most = |want: Option<u32>, fact: u32| want.is_none_or(|want| fact <= want);
        when.dialect.is_none_or(|dialect| dialect == evidence.dialect)
            && is(when.stream, matches!(asked.form, ReplyForm::Events { .. }))
            && is(when.compaction, asked.purpose == Purpose::Compaction)
            && is(when.continues, evidence.continues)
            && least(when.min_tools, tools)
            && most(when.max_tools, tools)
            && least(when.min_messages, facts.messages)
            && most(when.max_messages, facts.messages)
            && most(when.max_tokens, asked.sampling.max_tokens.unwrap_or(u32::MAX))
            && when.tool.iter().all(|name| facts.offers(name))
            && !when.no_tool.iter().any(|name| facts.offers(name))
    }

    fn headers_hold(&self, facts: &Facts<'_>) -> bool {
        let there = |(name, pattern): &(String, Regex)| {
            facts.header(name).any(|value| pattern.is_match(value))
        };
        self.headers.iter().all(there)
            && !self.no_headers.iter().any(|name| facts.header(name).next().is_some())
    }

    fn texts_hold(&self, facts: &Facts<'_>) -> bool {
        let there = |pattern: &Option<Pattern>, said: Said<'_>| {
            pattern.as_ref().is_none_or(|pattern| facts.found(pattern, said))
        };
        let absent = |pattern: &Option<Pattern>, said: Said<'_>| {
            pattern.as_ref().is_none_or(|pattern| !facts.found(pattern, said))
        };
        let last_user = match &self.skip_user {
            _ if self.last_user.is_none() && self.no_last_user.is_none() => facts.last_user(),
            Some(skip) => facts.last_user_but(skip),
            None => facts.last_user(),
        };
        there(&self.model, Said::Text(&facts.evidence.asked.model))
            && self
                .format
                .as_ref()
                .is_none_or(|pattern| facts.found(pattern, Said::Text(facts.format())))
            && there(&self.last, facts.last())
            && there(&self.last_user, last_user)
            && absent(&self.no_last_user, last_user)
            && there(&self.first_user, facts.first_user())
            && absent(&self.no_first_user, facts.first_user())
            && there(&self.system, Said::Instructions)
            && absent(&self.no_system, Said::Instructions)
    }
}

/// Refuses conditions that cannot all hold.
fn never(name: &str, when: &When) -> Result<(), SceneError> {
    let crossed = |least: Option<u32>, most: Option<u32>| {
        least.zip(most).is_some_and(|(least, most)| least > most)
    };
    let key = if crossed(when.min_tools, when.max_tools) {
        "min_tools"
    } else if crossed(when.min_messages, when.max_messages) {
        "min_messages"
    } else if when.tool.iter().any(|tool| when.no_tool.contains(tool)) {
        "tool"
    } else {
        return Ok(());
    };
    Err(SceneError::Never { name: name.to_owned(), key })
}
