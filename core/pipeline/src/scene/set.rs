//! The scene rules of a session, checked, compiled and in order.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::conditions::Conditions;
use super::facts::Facts;
use super::{Evidence, Recall, Says, Scene, SceneError, SceneRule, Verdict, When};
use crate::turn::Purpose;

/// What comes with Rollgate, one file an agent.
pub(super) const SHIPPED: &[&str] = &[
    include_str!("shipped/claude-code.toml"),
    include_str!("shipped/codex.toml"),
    include_str!("shipped/hermes.toml"),
    include_str!("shipped/mini-swe-agent.toml"),
    include_str!("shipped/openclaw.toml"),
    include_str!("shipped/opencode.toml"),
    include_str!("shipped/pi.toml"),
    include_str!("shipped/qwen-code.toml"),
];

/// The scene rules of a session. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SceneSet {
    /// The session's, then the node's.
    own: Arc<Vec<Rule>>,
    agent: Option<Arc<str>>,
    reads_instructions: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    rule: SceneRule,
    when: Conditions,
}

/// Rules of one agent, and what tells it where a session does not.
#[derive(Clone)]
struct Agent {
    name: Arc<str>,
    detect: Option<Conditions>,
    rules: Vec<Rule>,
}

impl SceneSet {
    /// The rules of a session of this agent: its own, then the node's; those shipped come last. Of
    /// equal names the first counts; `off` takes out what it names.
    pub fn for_session(
        agent: Option<&str>,
        node: &[SceneRule],
        own: &[SceneRule],
    ) -> Result<Self, SceneError> {
        let set = Self::recorded(agent, node, own)?;
        let rules = &set.own;
        let shipped = SHIPPED_AGENTS.as_ref().map_err(Clone::clone)?;
        let all = || rules.iter().chain(shipped.iter().flat_map(|agent| &agent.rules));
        let known = || all().filter(|rule| rule.rule.says != Says::Off).map(Rule::name);
        for off in rules.iter().filter(|rule| rule.rule.says == Says::Off) {
            if !known().any(|name| name == off.name()) {
                let (name, known) = (off.name().to_owned(), known().collect::<Vec<_>>().join(", "));
                return Err(SceneError::Unknown { name, known });
            }
        }
        Ok(set)
    }

    /// The rules of a session that was opened before, perhaps by another release: what it has `off`
    /// may be gone since.
    pub fn recorded(
        agent: Option<&str>,
        node: &[SceneRule],
        own: &[SceneRule],
    ) -> Result<Self, SceneError> {
        let shipped = SHIPPED_AGENTS.as_ref().map_err(Clone::clone)?;
        let mut rules = compile(own)?;
        rules.extend(compile(node)?);
        let asked = |shipped: &&Agent| agent.is_none_or(|name| shipped.is(name));
        let conditions = shipped
            .iter()
            .filter(asked)
            .flat_map(|agent| agent.rules.iter().map(|rule| &rule.when).chain(&agent.detect));
        let own = rules.iter().map(|rule| &rule.when);
        let reads_instructions = own.chain(conditions).any(Conditions::read_instructions);
        Ok(Self { own: Arc::new(rules), agent: agent.map(Arc::from), reads_instructions })
    }

    /// Whether some rule looks at [`Evidence::system`], which is not needed otherwise.
    pub fn reads_instructions(&self) -> bool {
        self.reads_instructions
    }

    /// Says what an exchange is for.
    pub fn classify(&self, evidence: &Evidence<'_>) -> Verdict {
        let said = self.decide(evidence, None);
        #[cfg(test)]
        super::recall::check(self, evidence, &said);
        said
    }

    /// The same, without searching again what comes again: `users` are the indexes of the messages
    /// of users, `recall` is the session's.
    pub fn classify_again(
        &self,
        evidence: &Evidence<'_>,
        recall: &Recall,
        users: &[usize],
    ) -> Verdict {
        self.decide(evidence, Some((recall, users)))
    }

    fn decide(&self, evidence: &Evidence<'_>, known: Option<(&Recall, &[usize])>) -> Verdict {
        if let Some(scene) = evidence.entry {
            return Verdict::entry(scene);
        }
        AGENTS_HERE.with(|shipped| self.decide_among(shipped, evidence, known))
    }

    fn decide_among(
        &self,
        shipped: &[Agent],
        evidence: &Evidence<'_>,
        known: Option<(&Recall, &[usize])>,
    ) -> Verdict {
        let facts = Facts::of(evidence, known);
        let agent = match &self.agent {
            Some(name) => shipped.iter().find(|agent| agent.is(name)),
            None => shipped
                .iter()
                .find(|agent| agent.detect.as_ref().is_some_and(|detect| detect.hold(&facts)))
                .or_else(|| {
                    shipped.iter().find(|agent| evidence.detected.is_some_and(|d| agent.is(d)))
                })
                .or_else(|| shipped.iter().find(|agent| agent.is_shown_by(&facts))),
        };
        let name = self.agent.as_deref().or(agent.map(|agent| &*agent.name));
        let own = || self.own.iter().filter(|rule| rule.is_for(name));
        let mut passed: Vec<&str> = Vec::with_capacity(self.own.len());
        for rule in own().chain(agent.iter().flat_map(|agent| &agent.rules)) {
            if passed.contains(&rule.name()) {
                continue;
            }
            passed.push(rule.name());
            match rule.rule.says {
                Says::Scene(scene) if rule.when.hold(&facts) => {
                    return Verdict { scene, rule: rule.name().to_owned() };
                }
                _ => {}
            }
        }
        if evidence.asked.purpose == Purpose::Compaction {
            return Verdict::compaction_item();
        }
        // Who says what the main loop looks like means that nothing else is it.
        let told = agent.is_some() || own().any(|rule| rule.rule.says == Says::Scene(Scene::Main));
        if told { Verdict::none() } else { Verdict::default_main() }
    }
}

impl Rule {
    fn name(&self) -> &str {
        &self.rule.name
    }

    fn is_for(&self, agent: Option<&str>) -> bool {
        let listed = |name: &str| self.rule.agents.iter().any(|a| a.eq_ignore_ascii_case(name));
        self.rule.agents.is_empty() || agent.is_some_and(listed)
    }
}

/// The agent whose main loop a shipped rule of this name knows. A session that does not name its
/// agent is of that agent from such a turn on.
pub fn detected_by(verdict: &Verdict) -> Option<&'static str> {
    let shipped = SHIPPED_AGENTS.as_ref().map(Vec::as_slice).unwrap_or_default();
    let knows = |agent: &&Agent| agent.rules.iter().any(|rule| rule.name() == verdict.rule);
    let agent = shipped.iter().find(knows).filter(|_| verdict.scene == Scene::Main)?;
    Some(&agent.name)
}

impl Agent {
    /// Whether a rule about another call than its main loop's holds. What a user says is no evidence
    /// where there are tools: such a call has the main loop's instructions or headers, too.
    fn is_shown_by(&self, facts: &Facts<'_>) -> bool {
        let tells = |rule: &&Rule| {
            let SceneRule { says, when, .. } = &rule.rule;
            let marked = !when.header.is_empty() || when.system.is_some();
            *says != Says::Scene(Scene::Main) && (marked || when.max_tools == Some(0))
        };
        self.rules.iter().filter(tells).any(|rule| rule.when.hold(facts))
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// A shipped file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) agent: String,
    #[serde(default)]
    pub(super) detect: Option<When>,
    pub(super) scenes: Vec<SceneRule>,
}

/// Names of the agents that scene rules come with.
pub fn shipped_agents() -> impl Iterator<Item = &'static str> {
    SHIPPED_AGENTS.as_ref().into_iter().flatten().map(|agent| &*agent.name)
}

static SHIPPED_AGENTS: LazyLock<Result<Vec<Agent>, SceneError>> = LazyLock::new(|| {
    let read = |text: &&str| {
        let file: File =
            toml::from_str(text).map_err(|error| SceneError::Shipped(error.to_string()))?;
        let name = format!("{} (detect)", file.agent);
        let detect = file.detect.map(|when| Conditions::new(&name, &when)).transpose()?;
        Ok(Agent { name: file.agent.into(), detect, rules: compile(&file.scenes)? })
    };
    SHIPPED.iter().map(read).collect()
});

thread_local! {
    /// Searched without sharing anything with other threads: regular expressions keep behind locks
    /// what they need while they search. Shipped rules that cannot be read let no session open.
    static AGENTS_HERE: Vec<Agent> =
        SHIPPED_AGENTS.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
}

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
