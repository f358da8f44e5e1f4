//! The sandboxes of a server.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

use super::Options;
use super::faults::Faults;
use super::program::Program;
use super::tls::Identity;

/// Variable in the environment of each process: server, then sandbox.
pub(super) const MARKER: &str = "E2B_TEST_SANDBOX";

/// What the access token of a sandbox begins with; its id follows.
pub(super) const TOKEN: &str = "token-of-";

/// Everything that a server knows.
#[derive(Debug)]
pub(super) struct World {
    pub options: Options,
    pub faults: Faults,
    pub identity: Option<Identity>,
    root: tempfile::TempDir,
    places: Mutex<HashMap<String, Arc<Place>>>,
    /// Answers of creates by their idempotency key.
    pub keys: Mutex<HashMap<String, String>>,
    /// Sandboxes that died and whose processes are still to be looked for.
    dead: Mutex<Vec<String>>,
    numbers: AtomicU64,
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    pub over: AtomicBool,
    /// Processes that run, those that wait in the server included, and the most there were.
    running: AtomicU64,
    peak: AtomicU64,
}

/// One sandbox.
#[derive(Debug)]
pub(super) struct Place {
    pub id: String,
    pub template: String,
    pub token: String,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub dir: PathBuf,
    pub started: SystemTime,
    /// Before this, nothing listens on envd's port.
    pub up_at: Instant,
    end_at: Mutex<Instant>,
    pub paused: AtomicBool,
    pub programs: Mutex<Vec<Arc<Program>>>,
    gone: AtomicBool,
    pub death: Notify,
}

/// What a sandbox is made of.
#[derive(Debug)]
pub(super) struct Made {
    pub template: String,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub ttl: Duration,
    pub up_after: Duration,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub fn new(options: Options) -> Self {
        let root = tempfile::Builder::new().prefix("e2b-server-").tempdir();
        Self {
            identity: options.tls.then(Identity::new),
            options,
            faults: Faults::default(),
            root: root.expect("a temporary directory can be made"),
            places: Mutex::default(),
            keys: Mutex::default(),
            dead: Mutex::default(),
            numbers: AtomicU64::new(1),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            over: AtomicBool::new(false),
            running: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// Value of the marker that all processes of this server begin with.
    pub fn marker(&self) -> String {
        format!("{MARKER}={}/", self.root.path().display())
    }

    /// Value of the marker of one sandbox.
    pub fn marker_of(&self, id: &str) -> String {
        format!("{}/{id}", self.root.path().display())
    }

    /// A number that this server gave to nothing else.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub fn begun(&self) {
        let running = self.running.fetch_add(1, Ordering::AcqRel) + 1;
        self.peak.fetch_max(running, Ordering::AcqRel);
    }

    pub fn ended(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Most processes at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    pub fn traffic(&self) -> (u64, u64) {
        (self.connections.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }

    pub fn make(&self, made: Made) -> std::io::Result<Arc<Place>> {
        let number = self.number();
        // Ids of E2B are lower-case letters and digits.
        let id = format!("i{number:06}{:08x}", std::process::id());
        let dir = self.root.path().join(&id);
        std::fs::create_dir_all(dir.join("home"))?;
        std::fs::create_dir(dir.join("tmp"))?;
        let place = Arc::new(Place {
            token: format!("{TOKEN}{id}"),
            id: id.clone(),
            template: made.template,
            metadata: made.metadata,
            env: made.env,
            dir,
            started: SystemTime::now(),
            up_at: Instant::now() + made.up_after,
            end_at: Mutex::new(Instant::now() + made.ttl),
            paused: AtomicBool::new(false),
            programs: Mutex::default(),
            gone: AtomicBool::new(false),
            death: Notify::new(),
        });
        lock(&self.places).insert(id, place.clone());
        Ok(place)
    }

    pub fn find(&self, id: &str) -> Option<Arc<Place>> {
        let place = lock(&self.places).get(id).cloned()?;
        if place.left().is_zero() {
            self.remove(id);
            return None;
        }
        Some(place)
    }

    /// In the order of their making.
    pub fn living(&self) -> Vec<Arc<Place>> {
        let mut places: Vec<_> = lock(&self.places).values().cloned().collect();
        places.sort_by(|a, b| a.id.cmp(&b.id));
        places
    }

    /// Ends a sandbox; whether there was one.
    pub fn remove(&self, id: &str) -> bool {
        let Some(place) = lock(&self.places).remove(id) else { return false };
        place.gone.store(true, Ordering::Release);
        place.death.notify_waiters();
        for program in lock(&place.programs).iter() {
            program.kill();
        }
        lock(&self.dead).push(id.to_owned());
        true
    }

    /// Ends sandboxes whose time is up, and removes what dead ones left. Called again and again.
    pub fn tidy(&self) {
        for place in self.living() {
            if place.left().is_zero() {
                self.remove(&place.id);
            }
        }
        let dead = std::mem::take(&mut *lock(&self.dead));
        if dead.is_empty() {
            return;
        }
        let markers: Vec<_> =
            dead.iter().map(|id| format!("{MARKER}={}", self.marker_of(id))).collect();
        super::sweep::kill_any(&markers);
        for id in dead {
            // A process that is just dying may still write: the root goes in the end anyway.
            let _ = std::fs::remove_dir_all(self.root.path().join(id));
        }
    }

    /// Ends everything.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
        for place in self.living() {
            self.remove(&place.id);
        }
    }
}

impl Place {
    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    pub fn left(&self) -> Duration {
        lock(&self.end_at).saturating_duration_since(Instant::now())
    }

    pub fn set_end(&self, ttl: Duration) {
        *lock(&self.end_at) = Instant::now() + ttl;
    }

    /// Makes its life longer, never shorter.
    pub fn extend(&self, ttl: Duration) {
        let mut end = lock(&self.end_at);
        *end = (*end).max(Instant::now() + ttl);
    }

    pub fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub fn up(&self) -> bool {
        Instant::now() >= self.up_at
    }
}
