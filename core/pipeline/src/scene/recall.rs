//! What was found in texts that come again with every request: each is searched once for a pattern.
//!
//! Texts are known by the handles of their messages, and by what they say where handles differ. What
//! is held here can be worked out anew.

use std::cell::RefCell;
use std::rc::Rc;

use super::conditions::Pattern;
use super::facts::found;
use super::instructions;
use crate::limits::{RECALLED_INSTRUCTIONS, RECALLED_TEXTS};
use crate::turn::{Message, Role, Tools};

/// What a session remembers of the texts that its scene rules looked at.
#[derive(Default)]
pub struct Recall {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Those asked for last are last.
    messages: Vec<(Message, Findings)>,
    instructions: Vec<(Instructions, Findings)>,
    tools: Option<(Tools, Vec<String>)>,
    /// How often a text was searched.
    searches: usize,
}

/// By number of a pattern: whether it was found.
type Findings = Vec<(u32, bool)>;

/// The leading instructions of a request, as they were sent.
#[derive(Clone)]
pub struct Instructions {
    leading: Rc<[Message]>,
    joined: Option<Rc<str>>,
}

impl Instructions {
    /// Their text, joined by newlines.
    pub fn text(&self) -> &str {
        match (&self.joined, &*self.leading) {
            (Some(joined), _) => joined,
            (None, [alone, ..]) => &alone.content,
            (None, []) => "",
        }
    }
}

impl Recall {
    /// The leading instructions of a request. They are what [`super::Evidence::system`] is about, up to
    /// the next call of this.
    pub fn instructions(&self, messages: &[Message]) -> Instructions {
        let instructs = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
        let leading = &messages[..messages.iter().take_while(instructs).count()];
        let same = |(held, _): &(Instructions, Findings)| {
            held.leading.len() == leading.len()
                && held.leading.iter().zip(leading).all(|(a, b)| a.is_copy_of(b) || a == b)
        };
        let held = &mut self.inner.borrow_mut().instructions;
        let (known, findings) = recalled(held, RECALLED_INSTRUCTIONS, same).unwrap_or_else(|| {
            let joined = (leading.len() > 1).then(|| instructions(leading).into());
            (Instructions { leading: leading.into(), joined }, Findings::new())
        });
        held.push((known.clone(), findings));
        known
    }

    pub(super) fn in_message(&self, pattern: &Pattern, message: &Message) -> bool {
        let Inner { messages, searches, .. } = &mut *self.inner.borrow_mut();
        let same = |(held, _): &(Message, Findings)| held.is_copy_of(message) || held == message;
        let mut known = recalled(messages, RECALLED_TEXTS, same)
            .unwrap_or_else(|| (message.clone(), Findings::new()));
        let found = search(&mut known.1, pattern, &message.content, searches);
        messages.push(known);
        found
    }

    /// `text` is that of the instructions last asked for.
    pub(super) fn in_instructions(&self, pattern: &Pattern, text: &str) -> bool {
        let Inner { instructions, searches, .. } = &mut *self.inner.borrow_mut();
        match instructions.last_mut() {
            Some((held, findings)) if std::ptr::eq(held.text(), text) => {
                search(findings, pattern, text, searches)
            }
            _ => found(&pattern.regex, text),
        }
    }

    /// Whether a tool of this name is among these.
    pub(super) fn offers(&self, tools: &Tools, name: &str) -> bool {
        let known = &mut self.inner.borrow_mut().tools;
        if !known.as_ref().is_some_and(|(held, _)| held.is_copy_of(tools)) {
            let named = tools.iter().filter_map(|tool| tool["function"]["name"].as_str());
            *known = Some((tools.clone(), named.map(str::to_owned).collect()));
        }
        known.as_ref().is_some_and(|(_, names)| names.iter().any(|held| held == name))
    }

    /// How many texts are remembered.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        let inner = self.inner.borrow();
        (inner.messages.len(), inner.instructions.len())
    }

    /// How often a text was searched.
    #[cfg(test)]
    pub(super) fn searches(&self) -> usize {
        self.inner.borrow().searches
    }
}

/// Takes out what is known, or makes room for it.
fn recalled<T>(held: &mut Vec<T>, most: usize, same: impl Fn(&T) -> bool) -> Option<T> {
    let at = held.iter().rposition(same);
    if at.is_none() && held.len() >= most {
        held.remove(0);
    }
    at.map(|at| held.remove(at))
}

fn search(findings: &mut Findings, pattern: &Pattern, text: &str, searches: &mut usize) -> bool {
    let known = findings.iter().find(|(number, _)| *number == pattern.number);
    if let Some((_, found)) = known {
        return *found;
    }
    *searches += 1;
    let found = found(&pattern.regex, text);
    findings.push((pattern.number, found));
    found
}

/// Every exchange that a test classifies is classified once more, by what those before it left behind.
#[cfg(test)]
pub(super) fn check(set: &super::SceneSet, evidence: &super::Evidence<'_>, said: &super::Verdict) {
    thread_local! {
        static SESSION: Recall = Recall::default();
    }
    SESSION.with(|recall| {
        let messages = &evidence.asked.messages;
        let roles = messages.iter().enumerate();
        let users: Vec<usize> =
            roles.filter(|(_, message)| message.role == Role::User).map(|(at, _)| at).collect();
        let system = recall.instructions(messages);
        let system = if evidence.system == system.text() { system.text() } else { evidence.system };
        let again = super::Evidence { system, ..*evidence };
        for _ in 0..2 {
            assert_eq!(set.classify_again(&again, recall, &users), *said);
        }
    });
}
