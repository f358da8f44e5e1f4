//! Where agents' programs are inside sandboxes.

use std::collections::BTreeMap;

use rollgate_harness::Harness;

use crate::task::Agent;

/// Programs by agent and version. What is not here is on the sandbox's PATH.
#[derive(Clone, Debug, Default)]
pub struct Programs(BTreeMap<(String, String), String>);

impl Programs {
    /// Adds a program.
    pub fn add(&mut self, name: &str, version: &str, program: String) {
        self.0.insert((name.to_owned(), version.to_owned()), program);
    }

    /// The program of an agent.
    pub fn of(&self, agent: &Agent, harness: &dyn Harness) -> Option<&str> {
        let version = wanted_version(agent, harness)?;
        self.0.get(&(agent.name.clone(), version)).map(String::as_str)
    }
}

/// The version an agent is wanted in: the task's, else the one its harness is proven with.
pub fn wanted_version(agent: &Agent, harness: &dyn Harness) -> Option<String> {
    let proven = || Some(harness.package()?.version.to_owned());
    agent.version.clone().or_else(proven)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Option<&str>, expected: Option<&str>) {
        let mut programs = Programs::default();
        programs.add("mini-swe-agent", "2.4.6", "/a/bin/x".to_owned());
        programs.add("mini-swe-agent", "9.0", "/b/bin/x".to_owned());
        let version = version.map(str::to_owned);
        let agent = Agent { version, ..Agent::named("mini-swe-agent") };
        let harness = rollgate_harness::by_name(&agent.name).unwrap();
        assert_eq!(programs.of(&agent, harness.as_ref()), expected);
    }

    #[test]
    fn the_tasks_version_wins_over_the_proven_one() {
        check(None, Some("/a/bin/x"));
        check(Some("9.0"), Some("/b/bin/x"));
        check(Some("1.0"), None);
    }
}
