//! The journal alone: order, durability, failures.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use futures_util::future::join_all;
use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::Gatehouse;
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::{Record, Reward, Sealed};
use rollgate_pipeline::render::Model;
use rollgate_pipeline::render::sample_model::test_model;

use super::*;
use crate::Driver;
use crate::plane::Door;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(test_model()));
const HASH: SessionHash = SessionHash(7);

fn journals(directory: &Path, durability: Durability) -> Rc<Journals> {
    let gatehouse = Gatehouse {
        model: MODEL.clone(),
        engine: EngineKind::Vllm,
        engine_model: "m".into(),
        limits: Limits::default(),
        keepalive_first_ms: 0,
        keepalive_next_ms: 0,
        node: "n".into(),
        sessions: Default::default(),
    };
    let plane = Plane {
        gatehouse: Arc::new(gatehouse),
        driver: Driver::Epoll,
        durability,
        journals: directory.to_owned(),
        engines: Vec::new(),
        healths: Vec::new(),
        meters: Vec::new(),
        idle_evict_ms: 0,
        pin: false,
        open_journals: 8,
        guard: crate::guard::Guard::new(&Default::default()),
        doors: vec![Door::default()],
        draining: AtomicBool::new(false),
        running: AtomicUsize::new(1),
        unsynced: AtomicBool::new(false),
        epoch: crate::rt::time::now(),
    };
    std::fs::create_dir_all(directory.join("00")).unwrap();
    Rc::new(Journals { plane: Arc::new(plane), shard: ShardIndex(0), files: Files::new(4) })
}

/// Runs on both drivers, with both promises.
fn check(test: impl AsyncFn(Rc<Journals>)) {
    let drivers = [Driver::Epoll, crate::driver::choose(crate::DriverChoice::Auto).unwrap()];
    for driver in drivers {
        for durability in [Durability::Write, Durability::Fsync] {
            let directory = tempfile::tempdir().unwrap();
            let run = || test(journals(directory.path(), durability));
            crate::driver::run(driver, run).unwrap();
        }
    }
}

fn reward(at: u32) -> Record {
    Record::Reward(Reward { reward: Some(f64::from(at)), parts: Default::default() })
}

async fn loaded(path: &Path) -> (Vec<Record>, u64) {
    match load(path).await.unwrap() {
        Loaded::Records { records, torn_bytes, .. } => (records, torn_bytes),
        Loaded::Nothing => (Vec::new(), 0),
    }
}

#[test]
fn frames_lie_in_the_order_of_their_appends() {
    check(async |journals| {
        journals.create(HASH).await.unwrap();
        let journal = Journal::new(&journals, HASH, 0);
        let expected: Vec<Record> = (0..100).map(reward).collect();
        let appends = expected.iter().map(|record| {
            let frame = record.clone().to_frame().unwrap();
            journal.append(frame)
        });
        // Waited for in another order than appended in.
        let mut appends: Vec<_> = appends.collect();
        appends.reverse();
        assert!(join_all(appends).await.into_iter().all(|done| done.is_ok()));
        let (records, torn) = loaded(&journals.plane.journal_path(HASH)).await;
        assert_eq!((records, torn), (expected, 0));
        let file = std::fs::metadata(journals.plane.journal_path(HASH)).unwrap();
        assert_eq!(journals.counters().journal_bytes.get(), file.len());
    });
}

#[test]
fn an_append_whose_asker_left_is_written_all_the_same() {
    check(async |journals| {
        journals.create(HASH).await.unwrap();
        let journal = Journal::new(&journals, HASH, 0);
        drop(journal.append(reward(1).to_frame().unwrap()));
        journal.append(reward(2).to_frame().unwrap()).await.unwrap();
        let (records, _) = loaded(&journals.plane.journal_path(HASH)).await;
        assert_eq!(records, [reward(1), reward(2)]);
    });
}

#[test]
fn a_full_disk_fails_this_frame_and_all_after_it() {
    check(async |journals| {
        let path = journals.plane.journal_path(HASH);
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let journal = Journal::new(&journals, HASH, 0);
        let appends = (0..3).map(|at| journal.append(reward(at).to_frame().unwrap()));
        for done in join_all(appends.collect::<Vec<_>>()).await {
            assert_eq!(done.unwrap_err().kind, FaultKind::JournalFailed);
        }
        assert!(journal.is_broken());
        assert_eq!(journals.counters().journal_failures.get(), 1);
        std::fs::remove_file(&path).unwrap();
        journals.create(HASH).await.unwrap();
        let late = journal.append(reward(9).to_frame().unwrap()).await;
        assert!(late.is_err(), "a broken journal stays broken");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    });
}

#[test]
fn what_was_not_promised_is_cut_back() {
    check(async |journals| {
        journals.create(HASH).await.unwrap();
        let path = journals.plane.journal_path(HASH);
        let journal = Journal::new(&journals, HASH, 0);
        journal.append(reward(1).to_frame().unwrap()).await.unwrap();
        // As a short write would leave it.
        let mut bytes = std::fs::read(&path).unwrap();
        let promised = bytes.len() as u64;
        bytes.extend_from_slice(b"RGJ1 half");
        std::fs::write(&path, &bytes).unwrap();
        break_off(&journal.inner, &io::Error::other("short"));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), promised);
    });
}

#[test]
fn giving_up_waits_for_the_write_under_way_and_refuses_the_rest() {
    check(async |journals| {
        journals.create(HASH).await.unwrap();
        let journal = Journal::new(&journals, HASH, 0);
        let appends: Vec<_> =
            (0..20).map(|at| journal.append(reward(at).to_frame().unwrap())).collect();
        let (_, done) = futures_util::future::join(journal.give_up(), join_all(appends)).await;
        let kept = done.iter().take_while(|done| done.is_ok()).count();
        assert!(done[kept..].iter().all(Result::is_err), "no gap");
        let (records, torn) = loaded(&journals.plane.journal_path(HASH)).await;
        assert_eq!((records.len(), torn), (kept, 0), "just what was promised");
        assert_eq!(journals.counters().journal_failures.get(), 0, "it was meant");
    });
}

#[test]
fn a_torn_end_is_cut_once_and_a_torn_beginning_is_no_session() {
    check(async |journals| {
        journals.create(HASH).await.unwrap();
        let path = journals.plane.journal_path(HASH);
        let good = Record::Sealed(Sealed { at_ms: 5 });
        let frame = good.clone().to_frame().unwrap();
        for cut in 1..frame.len() {
            std::fs::write(&path, [&frame, &frame[..cut]].concat()).unwrap();
            assert_eq!(loaded(&path).await, (vec![good.clone()], cut as u64));
            assert_eq!(loaded(&path).await, (vec![good.clone()], 0));
            std::fs::write(&path, &frame[..cut]).unwrap();
            assert!(matches!(load(&path).await, Ok(Loaded::Nothing)), "{cut}");
        }
        assert!(matches!(load(&path.with_extension("none")).await, Ok(Loaded::Nothing)));
    });
}
