//! The pool over sandboxes that are only counted.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use rollgate_backends::{Exit, Reach};

use super::*;

/// How long it takes to make or unmake one.
const BEAT: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    living: AtomicUsize,
    making: AtomicUsize,
    making_most: AtomicUsize,
    /// `create` fails while this is set.
    broken: AtomicBool,
    /// Numbers of sandboxes that run nothing.
    dead: Mutex<HashSet<usize>>,
}

#[derive(Default)]
struct Fakes(Arc<Counts>);

struct Fake(String, usize, Arc<Counts>, AtomicBool);

#[async_trait]
impl Backend for Fakes {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn isolation(&self) -> String {
        String::new()
    }
    async fn reach(&self) -> Result<Reach, BackendError> {
        Ok(Reach::Loopback)
    }
    async fn create(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        let counts = &self.0;
        let making = counts.making.fetch_add(1, Ordering::SeqCst) + 1;
        counts.making_most.fetch_max(making, Ordering::SeqCst);
        tokio::time::sleep(BEAT).await;
        counts.making.fetch_sub(1, Ordering::SeqCst);
        let number = counts.made.fetch_add(1, Ordering::SeqCst);
        if counts.broken.load(Ordering::SeqCst) {
            return Err(BackendError::Unusable("no room".into()));
        }
        counts.living.fetch_add(1, Ordering::SeqCst);
        let id = spec.attempt_id.clone();
        Ok(Box::new(Fake(id, number, counts.clone(), AtomicBool::new(false))))
    }
    async fn sweep(&self) -> Result<usize, BackendError> {
        Ok(0)
    }
}

#[async_trait]
impl Sandbox for Fake {
    fn id(&self) -> &str {
        &self.0
    }
    fn workdir(&self) -> &str {
        "/w"
    }
    fn home(&self) -> &str {
        "/h"
    }
    fn rollgate(&self) -> &str {
        "/r"
    }
    async fn exec(&self, _exec: Exec) -> Result<Exit, BackendError> {
        if self.2.dead.lock().unwrap().contains(&self.1) {
            return Err(BackendError::Unusable("gone".into()));
        }
        let (stdout, stderr) = (Vec::new(), Vec::new());
        let took = Duration::ZERO;
        Ok(Exit { code: Some(0), timed_out: false, stdout, stderr, cut_bytes: 0, took })
    }
    async fn put(&self, _path: &str, _contents: &[u8]) -> Result<(), BackendError> {
        Ok(())
    }
    async fn get(&self, _path: &str, _cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(None)
    }
    async fn destroy(&self) -> Result<(), BackendError> {
        tokio::time::sleep(BEAT).await;
        if !self.3.swap(true, Ordering::SeqCst) {
            self.2.living.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn pool(warm: usize, idle: Duration) -> (Pool, Arc<Counts>) {
    let backend = Fakes::default();
    let counts = backend.0.clone();
    let config = PoolConfig { warm, refill: 2, creates: 3, idle };
    (Pool::new(Arc::new(backend), config, "me"), counts)
}

const LONG: Duration = Duration::from_secs(600);

fn spec(name: &str) -> Spec {
    Spec::new(name, "me")
}

fn living(counts: &Counts) -> usize {
    counts.living.load(Ordering::SeqCst)
}

fn made(counts: &Counts) -> usize {
    counts.made.load(Ordering::SeqCst)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn warm_ones_are_handed_out_and_made_again_but_no_more_than_are_wanted() {
    let (pool, counts) = pool(3, LONG);
    pool.expect(&spec("a"), 5);
    let mut held = Vec::new();
    for number in 0..5 {
        let there = 3.min(5 - number);
        until("they are warm", || living(&counts) == held.len() + there).await;
        tokio::time::sleep(BEAT).await;
        held.push(pool.borrow(&spec(&format!("a.{number}"))).await.unwrap());
    }
    assert_eq!(counts.making_most.load(Ordering::SeqCst), 2, "as many at once as may be");
    let ids: HashSet<&str> = held.iter().map(|held| held.sandbox().id()).collect();
    assert_eq!((ids.len(), made(&counts)), (5, 5), "each once, none too many");
    for held in held {
        held.destroy().await.unwrap();
    }
    pool.close().await;
    assert_eq!(living(&counts), 0);
    assert_eq!(pool.counts(), PoolCounts { made: 5, warm: 5, broken: 0, unused: 0 });
}

#[tokio::test]
async fn one_that_is_not_well_is_not_handed_out() {
    let (pool, counts) = pool(2, LONG);
    pool.expect(&spec("a"), 2);
    until("both are warm", || living(&counts) == 2).await;
    tokio::time::sleep(BEAT).await;
    counts.dead.lock().unwrap().extend([0, 1]);
    let held = pool.borrow(&spec("a.0")).await.unwrap();
    assert_eq!(held.sandbox().id(), "a.0", "a new one");
    drop(held);
    pool.close().await;
    assert_eq!((living(&counts), pool.counts().broken), (0, 2));
}

#[tokio::test]
async fn what_nobody_takes_goes_and_what_would_not_live_long_enough_is_not_handed_out() {
    let (pool, counts) = pool(2, BEAT * 5);
    pool.expect(&spec("a"), 2);
    until("both are warm", || living(&counts) == 2).await;
    // Their time is that of a spec plus the longest idleness.
    tokio::time::sleep(BEAT * 10).await;
    let held = pool.borrow(&spec("a.0")).await.unwrap();
    assert_eq!((held.sandbox().id(), pool.counts().unused), ("a.0", 2));
    until("one more is warm", || made(&counts) == 4).await;
    tokio::time::sleep(BEAT * 10).await;
    pool.tend();
    assert_eq!(pool.counts().unused, 3, "idle for too long");
    pool.close().await;
    assert_eq!(living(&counts), 1, "only what is still held");
    drop(held);
    pool.close().await;
    assert_eq!(living(&counts), 0);
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_nothing_behind() {
    let (pool, counts) = pool(0, LONG);
    let late = tokio::time::timeout(BEAT / 4, pool.borrow(&spec("a.0"))).await;
    assert!(late.is_err());
    until("it is made all the same", || made(&counts) == 1).await;
    pool.close().await;
    assert_eq!(living(&counts), 0);

    // So does who panics, and who gives up on its end.
    let held = pool.borrow(&spec("a.1")).await.unwrap();
    let panics = tokio::spawn(async move {
        let _held = held;
        panic!("on purpose")
    });
    assert!(panics.await.is_err());
    let held = pool.borrow(&spec("a.2")).await.unwrap();
    let gave_up = tokio::time::timeout(BEAT / 4, held.destroy()).await;
    assert!(gave_up.is_err());
    pool.close().await;
    assert_eq!((living(&counts), made(&counts)), (0, 3));
}

#[tokio::test]
async fn creations_at_once_are_bounded_and_the_first_of_a_kind_is_alone() {
    let (pool, counts) = pool(0, LONG);
    let begun = Instant::now();
    let all = (0..10).map(|number| {
        let pool = pool.clone();
        async move { pool.borrow(&spec(&format!("a.{number}"))).await.unwrap() }
    });
    let held = futures_util::future::join_all(all).await;
    assert_eq!(counts.making_most.load(Ordering::SeqCst), 3);
    assert!(begun.elapsed() >= BEAT * 4, "1 + 3 + 3 + 3");
    drop(held);
    pool.close().await;
    assert_eq!(living(&counts), 0);
}

#[test]
fn a_kind_that_cannot_be_made_is_not_made_ever_more_often() {
    let mut shelf = Shelf::new(spec("a"));
    shelf.wanted = 100;
    let mut now = Instant::now();
    assert!(shelf.lacks(4, now));
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let pause = shelf.failed(now);
        assert!(!shelf.lacks(4, now) && shelf.lacks(4, now + pause));
        now += pause;
        pauses.push(pause.as_secs());
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    // Those under way count as there.
    shelf.making = 4;
    assert!(!shelf.lacks(4, now));
}

#[tokio::test]
async fn a_failure_is_told_to_those_who_wanted_it() {
    let (pool, counts) = pool(0, LONG);
    counts.broken.store(true, Ordering::SeqCst);
    assert!(pool.borrow(&spec("a.0")).await.unwrap_err().to_string().contains("no room"));
    counts.broken.store(false, Ordering::SeqCst);
    pool.borrow(&spec("a.1")).await.unwrap().destroy().await.unwrap();
    pool.close().await;
    assert_eq!(living(&counts), 0);
}
