//! The scene rules of a session, checked, compiled and in order.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::Deserialize;

use super::{Evidence, Scene, SceneRule, Verdict, When};
use crate::turn::{Message, ReplyForm, Role};

/// Regular expressions may take this many bytes compiled.
const PATTERN_BYTES: usize = 1 << 20;

/// What comes with Rollgate, one file an agent.
const SHIPPED: [&str; 0] = [];

/// Why scene rules cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SceneError {
    /// A pattern does not compile.
    #[error(
        "scene rule {name:?}: `{key}` is not a regular expression ({reason}): mend it (the syntax \
         is that of Rust's regex crate: no look-around, no back-references) or remove the rule"
    )]
    Pattern {
        /// The rule.
        name: String,
        /// The condition.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two rules of one list have one name, or one has none.
    #[error("scene rule {name:?} stands twice in one list, or is nameless: name each differently")]
    Name {
        /// The name.
        name: String,
    },
    /// A file in the binary is damaged.
    #[error("the shipped scene rules cannot be read: {0}")]
    Shipped(String),
}

/// The scene rules of a session. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SceneSet {
    own: Arc<Vec<Rule>>,
    agent: Option<Arc<str>>,
}

#[derive(Debug)]
struct Rule {
    rule: SceneRule,
    when: Conditions,
}

/// Rules of one agent, and what tells it where a session does not.
struct Agent {
    name: Arc<str>,
    detect: Option<Conditions>,
    rules: Vec<Rule>,
}

impl SceneSet {
    /// The rules of a session of this agent: its own, then the node's; those shipped come last.
    pub fn for_session(
        agent: Option<&str>,
        node: &[SceneRule],
        own: &[SceneRule],
    ) -> Result<Self, SceneError> {
        SHIPPED_AGENTS.as_ref().map_err(Clone::clone)?;
        let mut rules = compile(own)?;
        rules.extend(compile(node)?);
        Ok(Self { own: Arc::new(rules), agent: agent.map(Arc::from) })
    }

    /// Says what an exchange is for.
    pub fn classify(&self, evidence: &Evidence<'_>) -> Verdict {
        if let Some(scene) = evidence.entry {
            return Verdict::entry(scene);
        }
        let facts = Facts::of(evidence);
        let shipped = SHIPPED_AGENTS.as_ref().map(Vec::as_slice).unwrap_or_default();
        let agent = match &self.agent {
            Some(name) => shipped.iter().find(|agent| agent.name.eq_ignore_ascii_case(name)),
            None => shipped.iter().find(|a| a.detect.as_ref().is_some_and(|d| d.hold(&facts))),
        };
        let name = self.agent.as_deref().or(agent.map(|agent| &*agent.name));
        let is_for = |rule: &SceneRule| {
            let listed = |name: &str| rule.agents.iter().any(|a| a.eq_ignore_ascii_case(name));
            rule.agents.is_empty() || name.is_some_and(listed)
        };
        let own = self.own.iter().filter(|rule| is_for(&rule.rule));
        let shipped = agent.iter().flat_map(|agent| &agent.rules);
        match own.chain(shipped).find(|rule| rule.when.hold(&facts)) {
            Some(found) => Verdict { scene: found.rule.scene, rule: found.rule.name.clone() },
            None if agent.is_none() => Verdict::default_main(),
            None => Verdict { scene: Scene::Unknown, rule: "none".to_owned() },
        }
    }
}

/// What conditions are about.
struct Facts<'a> {
    evidence: &'a Evidence<'a>,
    messages: u32,
    first_user: &'a str,
    last_user: &'a str,
    last: &'a str,
    format: Option<String>,
}

impl<'a> Facts<'a> {
    fn of(evidence: &'a Evidence<'a>) -> Self {
        let messages = &evidence.asked.messages;
        let instructs = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
        let leading = messages.iter().take_while(instructs).count();
        let mut users = messages.iter().filter(|m| m.role == Role::User);
        let first_user = users.next();
        let text = |message: Option<&'a Message>| message.map_or("", |m| m.content.as_str());
        Self {
            evidence,
            messages: (messages.len() - leading) as u32,
            first_user: text(first_user),
            last_user: text(users.next_back().or(first_user)),
            last: text(messages.last()),
            format: evidence.asked.format.as_ref().map(ToString::to_string),
        }
    }

    fn offers(&self, name: &String) -> bool {
        self.evidence.asked.tools.iter().any(|tool| tool["function"]["name"] == name.as_str())
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.evidence.headers.iter().find(|header| header.name == name);
        found.map(|header| header.value.as_str())
    }
}

/// Conditions with their patterns compiled.
#[derive(Debug)]
struct Conditions {
    when: When,
    headers: Vec<(String, Regex)>,
    model: Option<Regex>,
    system: Option<Regex>,
    no_system: Option<Regex>,
    first_user: Option<Regex>,
    no_first_user: Option<Regex>,
    last_user: Option<Regex>,
    no_last_user: Option<Regex>,
    last: Option<Regex>,
    format: Option<Regex>,
}

impl Conditions {
    fn new(name: &str, when: &When) -> Result<Self, SceneError> {
        let one = |key: &str, pattern: &String| {
            regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
                let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                SceneError::Pattern { name: name.to_owned(), key: key.to_owned(), reason }
            })
        };
        let text = |key: &str, pattern: &Option<String>| {
            pattern.as_ref().map(|pattern| one(key, pattern)).transpose()
        };
        let header = |(name, pattern): (&String, &String)| {
            Ok((name.to_ascii_lowercase(), one("header", pattern)?))
        };
        Ok(Self {
            headers: when.header.iter().map(header).collect::<Result<_, _>>()?,
            model: text("model", &when.model)?,
            system: text("system", &when.system)?,
            no_system: text("no_system", &when.no_system)?,
            first_user: text("first_user", &when.first_user)?,
            no_first_user: text("no_first_user", &when.no_first_user)?,
            last_user: text("last_user", &when.last_user)?,
            no_last_user: text("no_last_user", &when.no_last_user)?,
            last: text("last", &when.last)?,
            format: text("format", &when.format)?,
            when: when.clone(),
        })
    }

    /// Whether all of them hold.
    fn hold(&self, facts: &Facts<'_>) -> bool {
        self.headers_hold(facts) && self.structure_holds(facts) && self.texts_hold(facts)
    }

    fn headers_hold(&self, facts: &Facts<'_>) -> bool {
        let there = |(name, pattern): &(String, Regex)| {
            facts.header(name).is_some_and(|value| pattern.is_match(value))
        };
        self.headers.iter().all(there)
            && !self.when.no_header.iter().any(|name| facts.header(name).is_some())
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
            && is(when.compaction, asked.purpose == crate::turn::Purpose::Compaction)
            && is(when.continues, evidence.continues)
            && least(when.min_tools, tools)
            && most(when.max_tools, tools)
            && least(when.min_messages, facts.messages)
            && most(when.max_messages, facts.messages)
            && most(when.max_tokens, asked.sampling.max_tokens.unwrap_or(u32::MAX))
            && when.tool.iter().all(|name| facts.offers(name))
            && !when.no_tool.iter().any(|name| facts.offers(name))
    }

    fn texts_hold(&self, facts: &Facts<'_>) -> bool {
        let found = |pattern: &Option<Regex>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
        };
        let absent = |pattern: &Option<Regex>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| !pattern.is_match(text))
        };
        found(&self.model, &facts.evidence.asked.model)
            && found(&self.format, facts.format.as_deref().unwrap_or_default())
            && found(&self.last, facts.last)
            && found(&self.last_user, facts.last_user)
            && absent(&self.no_last_user, facts.last_user)
            && found(&self.first_user, facts.first_user)
            && absent(&self.no_first_user, facts.first_user)
            && found(&self.system, facts.evidence.system)
            && absent(&self.no_system, facts.evidence.system)
    }
}

static SHIPPED_AGENTS: LazyLock<Result<Vec<Agent>, SceneError>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        agent: String,
        #[serde(default)]
        detect: Option<When>,
        scenes: Vec<SceneRule>,
    }
    let read = |text: &&str| {
        let file: File =
            toml::from_str(text).map_err(|error| SceneError::Shipped(error.to_string()))?;
        let detect = file.detect.map(|when| Conditions::new("detect", &when)).transpose()?;
        Ok(Agent { name: file.agent.into(), detect, rules: compile(&file.scenes)? })
    };
    SHIPPED.iter().map(read).collect()
});

fn compile(rules: &[SceneRule]) -> Result<Vec<Rule>, SceneError> {
    for (at, rule) in rules.iter().enumerate() {
        if rule.name.is_empty() || rules[..at].iter().any(|before| before.name == rule.name) {
            return Err(SceneError::Name { name: rule.name.clone() });
        }
    }
    let one = |rule: &SceneRule| {
        Ok(Rule { when: Conditions::new(&rule.name, &rule.when)?, rule: rule.clone() })
    };
    rules.iter().map(one).collect()
}
