//! Which agent is wanted, and from where it comes.

use rollgate_harness::{Harness, Package, by_name};

use super::platform;
use crate::exit::Stop;

/// An agent in a version.
pub(super) struct Wanted {
    /// Its recipe.
    pub(super) harness: Box<dyn Harness>,
    /// Where it comes from.
    pub(super) package: Package,
    /// The version that is wanted, which need not be the package's proven one.
    pub(super) version: String,
}

impl Wanted {
    /// Reads `NAME[@VERSION]`.
    pub(super) fn read(text: &str) -> Result<Self, Stop> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let harness = by_name(name).map_err(Stop::wrong_use)?;
        let package = harness.package().ok_or_else(|| {
            Stop::wrong_use(format!(
                "`{name}` is no program of its own: there is nothing to install. Agents with a \
                 package: {}",
                packaged().join(", ")
            ))
        })?;
        let version = version.unwrap_or(package.version);
        let plain = |character: char| {
            character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '+' | '_')
        };
        if !version.starts_with(|first: char| first.is_ascii_digit()) || !version.chars().all(plain)
        {
            return Err(Stop::wrong_use(format!(
                "{version:?} is no exact version; write one such as {name}@{}",
                package.version
            )));
        }
        Ok(Self { version: version.to_owned(), harness, package })
    }

    /// `NAME@VERSION`.
    pub(super) fn label(&self) -> String {
        format!("{}@{}", self.harness.name(), self.version)
    }

    /// The moment up to which the registry's packages count: only for the proven version, since
    /// another one may be younger.
    pub(super) fn as_of(&self) -> Option<String> {
        (self.version == self.package.version).then(|| self.package.as_of.to_owned())
    }

    /// A path of the package with the names of this platform in it.
    pub(super) fn on_this_platform(text: &str) -> String {
        platform::fill(text)
    }
}

/// The end of a day, as both registries' clients read it.
pub(super) fn end_of(day: &str) -> String {
    format!("{day}T23:59:59Z")
}

/// Names of the agents that have a package.
pub(super) fn packaged() -> Vec<&'static str> {
    let has_package = |name: &&str| by_name(name).is_ok_and(|harness| harness.package().is_some());
    rollgate_harness::NAMES.into_iter().filter(has_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, bool), &str>) {
        match (Wanted::read(text), expected) {
            (Ok(wanted), Ok((label, proven))) => {
                assert_eq!(wanted.label(), label);
                assert_eq!(wanted.as_of().is_some(), proven);
            }
            (Err(stop), Err(part)) => assert!(stop.message.contains(part), "{}", stop.message),
            (Ok(wanted), Err(part)) => panic!("{} instead of {part:?}", wanted.label()),
            (Err(stop), Ok(_)) => panic!("{}", stop.message),
        }
    }

    #[test]
    fn a_name_and_a_version_are_read() {
        check("mini-swe-agent", Ok(("mini-swe-agent@2.4.6", true)));
        check("mini-swe-agent@2.4.6", Ok(("mini-swe-agent@2.4.6", true)));
        check("mini-swe-agent@2.4.5", Ok(("mini-swe-agent@2.4.5", false)));
        check("mini-swe-agnt", Err("did you mean `mini-swe-agent`?"));
        check("scripted", Err("nothing to install"));
        check("mini-swe-agent@latest", Err("no exact version"));
        check("mini-swe-agent@2/../..", Err("no exact version"));
        check("mini-swe-agent@", Err("no exact version"));
    }
}
