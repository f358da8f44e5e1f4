//! The sandboxes that this process holds: their time is renewed, their death is noticed.
//!
//! One task renews all of them. It never gives up while a sandbox is held; only the service can
//! say that one is gone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::control::Control;
use super::limits;
use super::pause::jitter;

/// One sandbox that is held.
#[derive(Debug)]
pub(super) struct Life {
    pub id: String,
    /// The end of its longest life; not renewed past it.
    pub until: Instant,
    /// Why it is gone, once it is.
    gone: watch::Sender<Option<String>>,
    renewal: Mutex<Renewal>,
}

#[derive(Clone, Copy, Debug)]
struct Renewal {
    due: Instant,
    failures: u32,
    under_way: bool,
}

/// All of them, by id.
#[derive(Debug)]
pub(super) struct Lives {
    ttl: Duration,
    held: Mutex<HashMap<String, Arc<Life>>>,
    /// Creates that have not come to an end, by what their metadata says.
    creating: Mutex<HashSet<String>>,
    task: OnceLock<()>,
}

/// A create that is under way: what it made is nobody's leftover yet.
#[derive(Debug)]
pub(super) struct Creating<'a> {
    lives: &'a Lives,
    create: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Life {
    /// The service says that it is gone.
    pub fn lost(&self, why: &str) {
        self.gone.send_if_modified(|gone| {
            let first = gone.is_none();
            if first {
                *gone = Some(why.to_owned());
            }
            first
        });
    }

    /// Why it is gone, if it is.
    pub fn gone(&self) -> Option<String> {
        self.gone.borrow().clone()
    }

    /// Waits until it is gone; why.
    pub async fn death(&self) -> String {
        let mut gone = self.gone.subscribe();
        let found = gone.wait_for(Option::is_some).await;
        // The sender lives as long as `self`.
        found.ok().and_then(|gone| gone.clone()).unwrap_or_default()
    }
}

impl Lives {
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, held: Mutex::default(), creating: Mutex::default(), task: OnceLock::new() }
    }

    /// Time that the service is to give a sandbox with this much of its life left.
    pub fn time(&self, left: Duration) -> Duration {
        self.ttl.min(left).max(Duration::from_secs(1))
    }

    pub fn creating(&self, create: &str) -> Creating<'_> {
        lock(&self.creating).insert(create.to_owned());
        Creating { lives: self, create: create.to_owned() }
    }

    pub fn is_creating(&self, create: &str) -> bool {
        lock(&self.creating).contains(create)
    }

    pub fn holds(&self, id: &str) -> bool {
        lock(&self.held).contains_key(id)
    }

    /// Holds a sandbox from now on; its time was just set.
    pub fn hold(self: &Arc<Self>, id: &str, until: Instant, control: &Arc<Control>) -> Arc<Life> {
        let renewal = Renewal { due: self.next_due(Instant::now()), failures: 0, under_way: false };
        let life = Arc::new(Life {
            id: id.to_owned(),
            until,
            gone: watch::Sender::new(None),
            renewal: Mutex::new(renewal),
        });
        lock(&self.held).insert(id.to_owned(), life.clone());
        self.task.get_or_init(|| {
            tokio::spawn(renew(Arc::downgrade(self), control.clone()));
        });
        life
    }

    pub fn release(&self, id: &str) {
        lock(&self.held).remove(id);
    }

    /// At a third of its time, so that two renewals may fail.
    fn next_due(&self, now: Instant) -> Instant {
        now + self.ttl / 3
    }

    /// Those to be renewed now, and when the next one is due.
    fn due(&self) -> (Vec<Arc<Life>>, Option<Instant>) {
        let (now, mut due, mut next) = (Instant::now(), Vec::new(), None::<Instant>);
        for life in lock(&self.held).values() {
            let mut renewal = lock(&life.renewal);
            if renewal.under_way || now >= life.until {
                continue;
            }
            if renewal.due <= now && due.len() < limits::UPKEEP_IN_FLIGHT {
                renewal.under_way = true;
                due.push(life.clone());
            } else {
                next = Some(next.map_or(renewal.due, |next| next.min(renewal.due)));
            }
        }
        (due, next)
    }

    fn renewed(&self, life: &Life, answer: Result<bool, crate::BackendError>) {
        let mut renewal = lock(&life.renewal);
        renewal.under_way = false;
        match answer {
            Ok(true) => (renewal.due, renewal.failures) = (self.next_due(Instant::now()), 0),
            Ok(false) => {
                renewal.due = life.until;
                drop(renewal);
                life.lost("the service does not know it any more");
            }
            Err(error) => {
                renewal.failures = renewal.failures.saturating_add(1);
                let pause = Duration::from_millis(500) * (1 << renewal.failures.min(6));
                let longest = limits::LONGEST_RENEW_PAUSE.min(self.ttl / 6);
                renewal.due = Instant::now() + jitter(pause.min(longest));
                tracing::warn!(sandbox = life.id, %error, "a sandbox is not renewed; again soon");
            }
        }
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        lock(&self.lives.creating).remove(&self.create);
    }
}

/// Renews whatever is due, for as long as there is somebody to hold it.
async fn renew(lives: Weak<Lives>, control: Arc<Control>) {
    /// Longest time between two looks, at sandboxes and at whether the backend is still there.
    const LOOK: Duration = Duration::from_secs(5);
    /// Shortest, so that many sandboxes are looked at together.
    const REST: Duration = Duration::from_millis(250);
    let mut under_way: JoinSet<()> = JoinSet::new();
    loop {
        let Some(all) = lives.upgrade() else { return };
        let (due, next) = all.due();
        for life in due {
            let (all, control) = (all.clone(), control.clone());
            under_way.spawn(async move {
                let left = life.until.saturating_duration_since(Instant::now());
                let answer = control.set_time(&life.id, all.time(left)).await;
                all.renewed(&life, answer);
            });
        }
        // What is held from now on is due after a third of its time.
        let longest = LOOK.min(all.ttl / 6);
        let wait = next.map_or(longest, |next| next.saturating_duration_since(Instant::now()));
        let wait = wait.clamp(REST.min(longest), longest);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            Some(_) = under_way.join_next(), if !under_way.is_empty() => {}
        }
        while under_way.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn death_is_told_once_and_to_all() {
        let renewal = Renewal { due: Instant::now(), failures: 0, under_way: false };
        let life = Life {
            id: "a".to_owned(),
            until: Instant::now(),
            gone: watch::Sender::new(None),
            renewal: Mutex::new(renewal),
        };
        assert_eq!(life.gone(), None);
        let (why, ()) = tokio::join!(life.death(), async { life.lost("first") });
        life.lost("second");
        assert_eq!((why.as_str(), life.death().await.as_str()), ("first", "first"));
    }

    #[test]
    fn no_time_goes_past_the_longest_life() {
        let lives = Lives::new(Duration::from_secs(900));
        assert_eq!(lives.time(Duration::from_secs(4000)), Duration::from_secs(900));
        assert_eq!(lives.time(Duration::from_secs(40)), Duration::from_secs(40));
        assert_eq!(lives.time(Duration::ZERO), Duration::from_secs(1));
        let creating = lives.creating("c");
        assert!(lives.is_creating("c"));
        drop(creating);
        assert!(!lives.is_creating("c"));
    }
}
