//! Whose a sandbox is, in its metadata, where a later Rollgate can read it.
//!
//! A pid says something only where it was given: a scope is one boot of one machine and one pid
//! namespace of it. Sandboxes of other scopes are left alone; the service ends them when nobody
//! renews their time.

use std::collections::HashMap;

use crate::{BackendError, Spec, local};

/// Key of the scope in which the owner's pid means something.
pub(super) const SCOPE: &str = "rollgate_scope";
/// Key of the owning process.
const LEASE: &str = "rollgate_lease";
/// Key of one create, the same in all its tries.
pub(super) const CREATE: &str = "rollgate_create";
const OWNER: &str = "rollgate_owner";
const ATTEMPT: &str = "rollgate_attempt";

/// This process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub scope: String,
    lease: String,
}

/// Who holds a sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    /// This process.
    Us,
    /// Another one that lives.
    Living,
    /// One that is dead.
    Dead,
    /// One that we cannot know of.
    Elsewhere,
}

impl Owner {
    pub fn this() -> Result<Self, BackendError> {
        let pid = nix::unistd::getpid().as_raw();
        let ticks = local::start_ticks(pid).ok_or_else(|| {
            BackendError::Unusable("/proc is not mounted; the e2b backend needs it".to_owned())
        })?;
        let space = std::fs::read_link("/proc/self/ns/pid");
        let space = space.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
        let space: String = space.chars().filter(char::is_ascii_digit).collect();
        Ok(Self { scope: format!("{}-{space}", local::boot_id()), lease: format!("{pid}-{ticks}") })
    }

    /// Metadata of a sandbox of ours.
    pub fn metadata(&self, spec: &Spec, create: &str) -> HashMap<&'static str, String> {
        HashMap::from([
            (SCOPE, self.scope.clone()),
            (LEASE, self.lease.clone()),
            (CREATE, create.to_owned()),
            (OWNER, spec.owner.clone()),
            (ATTEMPT, spec.attempt_id.clone()),
        ])
    }

    /// Who holds a sandbox with this metadata.
    pub fn holder(&self, metadata: &HashMap<String, String>) -> Holder {
        let (scope, lease) = (metadata.get(SCOPE), metadata.get(LEASE));
        if scope != Some(&self.scope) {
            return Holder::Elsewhere;
        }
        let Some(lease) = lease else { return Holder::Elsewhere };
        if *lease == self.lease {
            return Holder::Us;
        }
        let parts = lease
            .split_once('-')
            .and_then(|(pid, ticks)| Some((pid.parse::<i32>().ok()?, ticks.parse::<u64>().ok()?)));
        match parts {
            Some((pid, ticks)) if local::start_ticks(pid) == Some(ticks) => Holder::Living,
            Some(_) => Holder::Dead,
            None => Holder::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(metadata: &mut HashMap<String, String>, key: &str, value: &str) {
        metadata.insert(key.to_owned(), value.to_owned());
    }

    /// Row 17: a reaper that kills another job's sandboxes.
    #[test]
    fn row17_only_the_dead_of_this_scope_are_known_to_be_dead() {
        let owner = Owner::this().unwrap();
        let spec = Spec::new("attempt", "job");
        let ours = owner.metadata(&spec, "c1");
        let mut metadata: HashMap<String, String> =
            ours.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!(owner.holder(&metadata), Holder::Us);
        let parent = nix::unistd::getppid().as_raw();
        let ticks = local::start_ticks(parent).unwrap();
        with(&mut metadata, LEASE, &format!("{parent}-{ticks}"));
        assert_eq!(owner.holder(&metadata), Holder::Living);
        with(&mut metadata, LEASE, &format!("{parent}-{}", ticks + 1));
        assert_eq!(owner.holder(&metadata), Holder::Dead, "its pid was given to another");
        with(&mut metadata, SCOPE, "another-boot-4026531836");
        assert_eq!(owner.holder(&metadata), Holder::Elsewhere);
        with(&mut metadata, SCOPE, &owner.scope);
        with(&mut metadata, LEASE, "nonsense");
        assert_eq!(owner.holder(&metadata), Holder::Elsewhere);
        assert_eq!(owner.holder(&HashMap::new()), Holder::Elsewhere);
    }
}
