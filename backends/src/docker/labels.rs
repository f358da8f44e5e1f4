//! Who holds a container, in its labels: they outlive a killed owner.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::local::{boot_id, start_ticks};
use crate::{BackendError, Spec};

/// The sandbox's name; every container of ours has it.
pub(super) const SANDBOX: &str = "rollgate.sandbox";
const OWNER: &str = "rollgate.owner";
const ATTEMPT: &str = "rollgate.attempt";
const LEASE: &str = "rollgate.lease";

/// Containers asked for so far by this process; numbers their names.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// The process that owns a container, and until when.
///
/// A pid means something in one pid namespace of one boot of one machine only, and several
/// machines may share an engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Lease {
    pub pid: i32,
    /// Clock ticks from boot to the owner's start.
    pub start_ticks: u64,
    pub boot_id: String,
    pub pid_namespace: String,
    /// Seconds since 1970.
    pub expires_s: u64,
}

impl Lease {
    /// A lease of this process from now on.
    pub fn ours(ttl: Duration) -> Result<Self, BackendError> {
        let pid = nix::unistd::getpid().as_raw();
        let start_ticks = start_ticks(pid).ok_or_else(|| {
            BackendError::Unusable("/proc is not mounted; the docker backend needs it".to_owned())
        })?;
        let expires_s = now_s().saturating_add(ttl.as_secs());
        Ok(Self { pid, start_ticks, boot_id: boot_id(), pid_namespace: namespace(), expires_s })
    }

    /// Name of the next container of the owner. No other process makes the same one.
    pub fn next_name(&self) -> String {
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        let boot = self.boot_id.get(..8).unwrap_or("0");
        format!("rollgate-{boot}-{}-{}-{number}", self.pid, self.start_ticks)
    }

    /// What becomes of a container with this lease.
    pub fn verdict(&self, running: bool) -> Verdict {
        if now_s() >= self.expires_s {
            return Verdict::Expired;
        }
        if self.boot_id != boot_id() || self.pid_namespace != namespace() {
            // Its owner cannot be seen from here. After a reboot nothing of it runs.
            return if running { Verdict::Held } else { Verdict::Stranger };
        }
        match start_ticks(self.pid) {
            Some(ticks) if ticks == self.start_ticks => Verdict::Held,
            _ => Verdict::Orphan,
        }
    }
}

/// What a sweep does with a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Leave it.
    Held,
    /// Its time is up, whoever owns it.
    Expired,
    /// Its owner is dead.
    Orphan,
    /// Its owner cannot be seen; it may go once it has ended.
    Stranger,
}

/// The labels of a new container.
pub(super) fn labels(
    spec: &Spec,
    name: &str,
    lease: &Lease,
) -> Result<HashMap<String, String>, BackendError> {
    let lease = serde_json::to_string(lease)
        .map_err(|error| BackendError::Unusable(format!("cannot write a lease: {error}")))?;
    let labels = [
        (SANDBOX, name.to_owned()),
        (OWNER, spec.owner.clone()),
        (ATTEMPT, spec.attempt_id.clone()),
        (LEASE, lease),
    ];
    Ok(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The lease in a container's labels; `None`: it is not ours to remove.
pub(super) fn lease(labels: &HashMap<String, String>) -> Option<Lease> {
    labels.get(SANDBOX)?;
    serde_json::from_str(labels.get(LEASE)?).ok()
}

fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 17: only what is provably nobody's is swept.
    #[test]
    fn row_17_a_lease_is_judged_only_where_its_owner_can_be_seen() {
        let ours = Lease::ours(Duration::from_secs(60)).unwrap();
        let check = |lease: &Lease, running, verdict| {
            assert_eq!(lease.verdict(running), verdict, "{lease:?}");
        };
        check(&ours, true, Verdict::Held);
        check(&ours, false, Verdict::Held);
        let reused = Lease { start_ticks: ours.start_ticks + 1, ..ours.clone() };
        check(&reused, true, Verdict::Orphan);
        for elsewhere in [
            Lease { boot_id: "another".to_owned(), ..reused.clone() },
            Lease { pid_namespace: "pid:[1]".to_owned(), ..reused },
        ] {
            check(&elsewhere, true, Verdict::Held);
            check(&elsewhere, false, Verdict::Stranger);
            check(&Lease { expires_s: 1, ..elsewhere }, true, Verdict::Expired);
        }
        check(&Lease { expires_s: 1, ..ours.clone() }, true, Verdict::Expired);
        assert_ne!(ours.next_name(), ours.next_name());
    }

    #[test]
    fn labels_keep_the_lease() {
        let ours = Lease::ours(Duration::from_secs(60)).unwrap();
        let spec = Spec::new("a/1", "job");
        let mut labels = labels(&spec, "n", &ours).unwrap();
        assert_eq!(lease(&labels), Some(ours));
        assert_eq!(labels[ATTEMPT], "a/1");
        labels.remove(SANDBOX);
        assert_eq!(lease(&labels), None);
    }
}
