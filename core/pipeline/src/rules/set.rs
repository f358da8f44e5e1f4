//! The rules of a session, checked, compiled and in order.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::Deserialize;

use super::{Action, Place, Rule, RuleError, Spot};
use crate::turn::{Message, MessageFields, Role};

/// Regular expressions may take this many bytes compiled.
const PATTERN_BYTES: usize = 1 << 20;

/// Equalities that need no description: a name is all there is to switch off.
pub(crate) const BUILT_IN: [&str; 2] = [PARTIAL_ANSWER, JOINED_ANSWERS];
/// A delivered answer that comes back without its end.
pub(crate) const PARTIAL_ANSWER: &str = "partial-answer";
/// Answers that come back as one message, with white space of the agent's between them.
pub(crate) const JOINED_ANSWERS: &str = "joined-answers";

/// The rules of a session, ready to use. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    active: Arc<Active>,
}

#[derive(Debug, Default)]
struct Active {
    /// Shared with other sessions: what a regular expression needs while it searches is large.
    rules: Vec<Arc<Compiled>>,
    built_in: Vec<&'static str>,
    strips: Reach,
    reads_last: bool,
}

/// Which messages of a request rules look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Reach {
    /// None.
    #[default]
    Nothing,
    /// The leading instructions.
    Leading,
    /// Any.
    All,
}

/// A rule with its pattern compiled.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    rule: Rule,
    pub(crate) pattern: Option<Regex>,
}

impl Compiled {
    fn new(rule: &Rule) -> Result<Self, RuleError> {
        let needs =
            |action, needed| Err(RuleError::Incomplete { name: rule.name.clone(), action, needed });
        let placed = rule.pattern.is_some() || rule.place != Place::Any;
        let edits = matches!(rule.action, Action::Strip | Action::Overlay | Action::Same);
        if edits && rule.role == Some(Role::Assistant) {
            return Err(RuleError::OwnText { name: rule.name.clone() });
        }
        match rule.action {
            Action::Strip if rule.pattern.is_none() => needs("\"strip\"", "a pattern"),
            Action::Overlay if !placed => needs("\"overlay\"", "a pattern, or a place"),
            Action::Same if rule.pattern.is_none() && !rule.results_order => {
                needs("\"same\"", "a pattern, or results_order = true")
            }
            _ => Ok(()),
        }?;
        let compile = |pattern: &String| {
            regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
                let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                RuleError::Pattern { name: rule.name.clone(), reason }
            })
        };
        let pattern = rule.pattern.as_ref().map(compile).transpose()?;
        Ok(Self { rule: rule.clone(), pattern })
    }

    pub(crate) fn name(&self) -> &str {
        &self.rule.name
    }

    pub(crate) fn action(&self) -> Action {
        self.rule.action
    }

    /// Whether it is about the whole message, where it is about the message at all.
    pub(crate) fn whole(&self) -> bool {
        self.rule.whole || self.pattern.is_none()
    }

    /// Whether it looks at a message of this role, standing there.
    pub(crate) fn looks_at(&self, role: Role, spot: Spot) -> bool {
        let role = match self.rule.role {
            Some(Role::System) => matches!(role, Role::System | Role::Developer),
            Some(asked) => role == asked,
            None => role != Role::Assistant || self.rule.action == Action::Masked,
        };
        role && match self.rule.place {
            Place::Any => true,
            Place::Last => spot.last,
            Place::System => spot.leading,
        }
    }

    fn is_for(&self, agent: Option<&str>) -> bool {
        let listed = |agent: &str| self.rule.agents.iter().any(|a| a.eq_ignore_ascii_case(agent));
        self.rule.agents.is_empty() || agent.is_some_and(listed)
    }
}

impl RuleSet {
    /// The rules of a session of this agent: its own, then the node's, then the shipped ones. Of
    /// equal names the first counts; `off` takes out what it names.
    pub fn for_session(
        agent: Option<&str>,
        node_rules: &[Rule],
        session_rules: &[Rule],
    ) -> Result<RuleSet, RuleError> {
        let lists = lists(node_rules, session_rules)?;
        let known = || {
            let all = lists.iter().flatten().filter(|rule| rule.action() != Action::Off);
            all.map(|rule| rule.name()).chain(BUILT_IN)
        };
        for rule in lists.iter().flatten() {
            if rule.action() == Action::Off && !known().any(|name| name == rule.name()) {
                let known = known().collect::<Vec<_>>().join(", ");
                return Err(RuleError::Unknown { name: rule.name().to_owned(), known });
            }
        }
        Ok(Self::nearest(agent, &lists))
    }

    /// The rules of a session that was opened before, perhaps by another release: what it has `off`
    /// may be gone since.
    pub fn recorded(
        agent: Option<&str>,
        node_rules: &[Rule],
        session_rules: &[Rule],
    ) -> Result<RuleSet, RuleError> {
        Ok(Self::nearest(agent, &lists(node_rules, session_rules)?))
    }

    fn nearest(agent: Option<&str>, lists: &[Vec<Arc<Compiled>>]) -> RuleSet {
        let mut rules: Vec<Arc<Compiled>> = Vec::new();
        for rule in lists.iter().flatten() {
            if rule.is_for(agent) && !rules.iter().any(|nearer| nearer.name() == rule.name()) {
                rules.push(Arc::clone(rule));
            }
        }
        let built_in = BUILT_IN.into_iter();
        let built_in = built_in.filter(|name| !rules.iter().any(|rule| rule.name() == *name));
        let built_in = built_in.collect();
        rules.retain(|rule| rule.action() != Action::Off);
        let strips = rules.iter().filter(|rule| rule.action() == Action::Strip);
        let strips = strips.fold(Reach::Nothing, |reach, rule| match rule.rule.place {
            Place::System if reach != Reach::All => Reach::Leading,
            _ => Reach::All,
        });
        let reads = |rule: &Arc<Compiled>| matches!(rule.action(), Action::Overlay | Action::Same);
        let mut last = rules.iter().filter(|rule| rule.rule.place == Place::Last);
        let reads_last = last.any(reads);
        RuleSet { active: Arc::new(Active { rules, built_in, strips, reads_last }) }
    }

    /// Takes out of the messages what `strip` rules hide; how many messages were touched. A message
    /// of which nothing is left goes too.
    pub fn strip(&self, messages: &mut Vec<Message>) -> u32 {
        if self.strips() == Reach::Nothing {
            return 0;
        }
        let (mut touched, mut at, count) = (0, 0, messages.len());
        let mut leading = true;
        messages.retain_mut(|message| {
            leading &= matches!(message.role, Role::System | Role::Developer);
            let spot = Spot { leading, last: at + 1 == count };
            at += 1;
            let Some(left) = self.stripped(message, spot) else { return true };
            touched += 1;
            let kept = left.is_some();
            left.into_iter().for_each(|left| *message = left);
            kept
        });
        touched
    }

    /// What `strip` rules leave of a message, if they find something in it; `Some(None)`: nothing.
    pub(crate) fn stripped(&self, message: &Message, spot: Spot) -> Option<Option<Message>> {
        let mut left: Option<String> = None;
        let rules = self.rules().filter(|(_, rule)| rule.action() == Action::Strip);
        for (_, rule) in rules.filter(|(_, rule)| rule.looks_at(message.role, spot)) {
            let Some(pattern) = &rule.pattern else { continue };
            let text = left.as_deref().unwrap_or(&message.content);
            if !pattern.is_match(text) {
                continue;
            }
            left = Some(match rule.whole() {
                true => String::new(),
                false => pattern.replace_all(text, "").into_owned(),
            });
        }
        let content = left?;
        let kept = !content.trim().is_empty()
            || !message.tool_calls.is_empty()
            || message.role == Role::Tool;
        let fields = || MessageFields {
            content,
            role: message.role,
            reasoning: message.reasoning.clone(),
            tool_calls: message.tool_calls.clone(),
            tool_call_id: message.tool_call_id.clone(),
            media_dropped: message.media_dropped,
        };
        Some(kept.then(|| fields().into()))
    }

    /// Which messages `strip` rules may look at.
    pub(crate) fn strips(&self) -> Reach {
        self.active.strips
    }

    /// Whether a message's reading depends on whether it is the last one.
    pub(crate) fn reads_last(&self) -> bool {
        self.active.reads_last
    }

    /// Whether both are copies of one set.
    pub(crate) fn is_copy_of(&self, other: &RuleSet) -> bool {
        Arc::ptr_eq(&self.active, &other.active)
    }

    /// Its rules with the numbers by which readings name them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (u16, &Compiled)> {
        (0..).zip(self.active.rules.iter().map(Arc::as_ref))
    }

    /// Name of a rule, by number.
    pub(crate) fn name(&self, rule: u16) -> Option<&str> {
        self.active.rules.get(usize::from(rule)).map(|rule| rule.name())
    }

    /// Whether a built-in equality holds.
    pub(crate) fn built_in(&self, name: &str) -> bool {
        self.active.built_in.contains(&name)
    }

    /// Number of the rule by which the order of parallel results does not count.
    pub(crate) fn results_order(&self) -> Option<u16> {
        let mut rules = self.rules();
        rules.find(|(_, rule)| rule.rule.results_order).map(|(number, _)| number)
    }
}

static SHIPPED: LazyLock<Result<Vec<Arc<Compiled>>, RuleError>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        rules: Vec<Rule>,
    }
    let file: File = toml::from_str(include_str!("shipped.toml"))
        .map_err(|error| RuleError::Shipped(error.to_string()))?;
    compile(&file.rules)
});

thread_local! {
    /// What a regular expression needs while it searches stands behind locks, where threads share
    /// it: each thread has a copy of its own.
    static HERE: Result<Vec<Arc<Compiled>>, RuleError> = SHIPPED
        .as_ref()
        .map(|rules| rules.iter().map(|rule| Arc::new(Compiled::clone(rule))).collect())
        .map_err(Clone::clone);
}

/// A session's rules, its node's, and those shipped.
fn lists(node: &[Rule], own: &[Rule]) -> Result<[Vec<Arc<Compiled>>; 3], RuleError> {
    Ok([compile(own)?, compile(node)?, HERE.with(Clone::clone)?])
}

fn compile(rules: &[Rule]) -> Result<Vec<Arc<Compiled>>, RuleError> {
    for (at, rule) in rules.iter().enumerate() {
        if rules[..at].iter().any(|before| before.name == rule.name) {
            return Err(RuleError::Twice { name: rule.name.clone() });
        }
    }
    rules.iter().map(|rule| Compiled::new(rule).map(Arc::new)).collect()
}
