//! A data plane for a test, on either driver.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::{Gatehouse, SessionDefaults};
use rollgate_pipeline::id::{ShardCount, TokenId};
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::{Frames, Record, SessionOptions, Tail};
use rollgate_pipeline::render::{ControlText, Model, Tokenizer, sample_model::test_model};
use rollgate_shards::{
    Created, DriverChoice, Durability, EngineTarget, Gate, GateConfig, ShardStats, StartError,
};
use tempfile::TempDir;

use crate::engine::{Engine, wait};

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let mut model = test_model();
    model.tokenizer = Arc::new(Touchy(model.tokenizer.clone()));
    Arc::new(model)
});

/// Text that makes a step of an exchange panic.
pub const PANIC: &str = "please panic";

/// A tokenizer with a bug.
struct Touchy(Arc<dyn Tokenizer>);

impl Tokenizer for Touchy {
    fn encode(
        &self,
        text: &str,
        control: ControlText,
        out: &mut Vec<TokenId>,
    ) -> Result<(), String> {
        assert!(!text.contains(PANIC), "as asked");
        self.0.encode(text, control, out)
    }

    fn bytes_of(&self, id: TokenId) -> Option<&[u8]> {
        self.0.bytes_of(id)
    }

    fn added(&self, text: &str) -> Option<TokenId> {
        self.0.added(text)
    }

    fn size(&self) -> u32 {
        self.0.size()
    }
}

/// The model that nodes serve and engines sample from.
pub fn model() -> Arc<Model> {
    MODEL.clone()
}

/// A state directory that lives as long as the test, in memory where that is possible: a sync of a
/// busy disk would be waited for.
pub fn state_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).unwrap()
}

/// What a test may set.
pub struct Setting {
    pub driver: DriverChoice,
    pub shards: u16,
    pub durability: Durability,
    pub limits: Limits,
    pub keepalive_first_ms: u64,
    pub idle_evict_ms: u64,
    pub orphan_grace_ms: u64,
}

impl Setting {
    pub fn new(driver: DriverChoice) -> Self {
        Self {
            driver,
            shards: 1,
            durability: Durability::Write,
            limits: Limits::default(),
            keepalive_first_ms: 3_000,
            idle_evict_ms: 600_000,
            orphan_grace_ms: 15_000,
        }
    }

    pub fn start(&self, state_dir: &Path, engines: &[SocketAddr]) -> Gate {
        self.try_start(state_dir, engines).unwrap()
    }

    pub fn try_start(&self, state_dir: &Path, engines: &[SocketAddr]) -> Result<Gate, StartError> {
        let engines: Vec<_> = engines.iter().map(|addr| (format!("http://{addr}"), 64)).collect();
        self.try_at(state_dir, &engines)
    }

    /// With these URLs of engines, and so much in flight at each.
    pub fn at(&self, state_dir: &Path, engines: &[(String, u32)]) -> Gate {
        self.try_at(state_dir, engines).unwrap()
    }

    pub fn try_at(&self, state_dir: &Path, engines: &[(String, u32)]) -> Result<Gate, StartError> {
        let target =
            |(url, most): &(String, u32)| EngineTarget { url: url.clone(), max_in_flight: *most };
        let gatehouse = Gatehouse {
            model: model(),
            engine: EngineKind::Vllm,
            engine_model: "m".into(),
            limits: self.limits.clone(),
            keepalive_first_ms: self.keepalive_first_ms,
            keepalive_next_ms: 100,
            node: "n1".into(),
            sessions: SessionDefaults {
                orphan_grace_ms: self.orphan_grace_ms,
                ..SessionDefaults::default()
            },
        };
        Gate::start(GateConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            shards: ShardCount(self.shards),
            driver: self.driver,
            pin: false,
            durability: self.durability,
            state_dir: state_dir.to_owned(),
            engines: engines.iter().map(target).collect(),
            gatehouse: Arc::new(gatehouse),
            idle_evict_ms: self.idle_evict_ms,
        })
    }

    /// Against one engine.
    pub fn with(&self, state_dir: &Path, engine: &Engine) -> Gate {
        self.start(state_dir, &[engine.addr])
    }
}

/// Runs a test on both drivers; on epoll alone where there is no io_uring.
pub fn on_both(test: impl Fn(DriverChoice)) {
    test(DriverChoice::Epoll);
    static URING: LazyLock<bool> = LazyLock::new(|| {
        let state = state_dir();
        let gate = Setting::new(DriverChoice::Auto).start(state.path(), &[]);
        gate.driver() == rollgate_shards::Driver::Uring
    });
    if *URING {
        test(DriverChoice::Uring);
    } else {
        println!("no io_uring here: not tested on it");
    }
}

/// Waits for a future on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub fn create(gate: &Gate) -> Created {
    block_on(gate.create(SessionOptions::default())).unwrap()
}

/// The sum over shards of one counter.
pub fn total(gate: &Gate, counter: impl Fn(&ShardStats) -> u64) -> u64 {
    gate.stats().iter().map(counter).sum()
}

/// Waits until it holds, for a few seconds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "never: {what}");
        wait(Duration::from_millis(20));
    }
}

/// The records of a journal that must be whole.
pub fn records(path: &Path) -> Vec<Record> {
    let file = std::fs::read(path).unwrap();
    let (records, tail) = Frames::new(&file).read_all().unwrap();
    assert_eq!(tail, Tail::Whole);
    records
}
