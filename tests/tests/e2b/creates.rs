//! Sandboxes are made once, whatever becomes of the answers.

use std::time::{Duration, Instant};

use rollgate_backends::Backend as _;
use rollgate_tests::e2b::{Does, Fault, On, Options};

use crate::bed::{Bed, fails, spec};

fn answer(status: u16, headers: &[(&str, &str)]) -> Does {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Does::Answer { status, message: "not now".to_owned(), headers }
}

/// After this fault of a create there is one sandbox, it works, and it is the one that was handed
/// over.
fn one_is_made(does: Does, creates: u64) {
    let bed = Bed::new();
    bed.server.once(On::Create, does.clone());
    let sandbox = bed.create();
    assert_eq!(bed.server.sandboxes(), [sandbox.id()], "{does:?}");
    assert_eq!(bed.server.seen(On::Create), creates, "{does:?}");
    assert_eq!(bed.sh(&*sandbox, "echo here").stdout, b"here\n", "{does:?}");
    assert_eq!(bed.run(bed.backend.sweep()).unwrap(), 0, "{does:?}");
    bed.run(sandbox.destroy()).unwrap();
    assert!(bed.server.sandboxes().is_empty(), "{does:?}");
}

#[test]
fn row01_a_create_whose_answer_is_lost_is_adopted() {
    one_is_made(Does::Never, 1);
    one_is_made(Does::Lost, 1);
    one_is_made(Does::DoneBut { status: 504 }, 1);
    one_is_made(Does::Late { delay_ms: 3_500 }, 1);
}

#[test]
fn row03_a_retry_does_not_double() {
    // It was made, the answer says otherwise.
    one_is_made(Does::DoneBut { status: 503 }, 1);
    // It was not made: looked for in vain, asked for again.
    one_is_made(answer(503, &[]), 2);
    one_is_made(answer(502, &[]), 2);
    one_is_made(answer(500, &[("should-retry", "true"), ("retry-after", "0")]), 2);
}

/// A server without idempotency keys, which makes one for each try.
#[test]
fn row01_doubles_are_removed() {
    let bed = Bed::new();
    let first = bed.create();
    let metadata = bed.server.metadata(first.id()).unwrap();
    let names: Vec<&str> = metadata.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["rollgate_scope", "rollgate_lease", "rollgate_create"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(metadata.contains(&("rollgate_attempt".to_owned(), "attempt-1".to_owned())));
    assert!(metadata.contains(&("rollgate_owner".to_owned(), "job-1".to_owned())));
    // The same create, as a lost try of it that comes through late.
    let body = serde_json::json!({"templateID": "base", "timeout": 60,
        "metadata": metadata.into_iter().collect::<std::collections::HashMap<_, _>>()});
    let url = format!("{}/sandboxes", bed.server.url);
    ureq::post(url).header("x-api-key", "key").send_json(body).unwrap();
    assert_eq!(bed.server.sandboxes().len(), 2);
    assert_eq!(bed.run(bed.backend.sweep()).unwrap(), 1);
    assert_eq!(bed.server.sandboxes(), [first.id()]);
}

#[test]
fn row02_a_cancelled_create_leaves_nothing() {
    let bed = Bed::new();
    bed.server.once(On::Create, Does::Late { delay_ms: 600 });
    let cancelled = bed.run(async {
        tokio::time::timeout(Duration::from_millis(200), bed.backend.create(&spec())).await
    });
    assert!(cancelled.is_err());
    assert_eq!(bed.server.sandboxes().len(), 1, "the service has made it");
    bed.until("it is gone again", || bed.server.sandboxes().is_empty());
    assert_eq!(bed.server.seen(On::Kill), 1);
}

#[test]
fn row04_row07_no_more_are_starting_than_allowed() {
    let bed = Bed::with(Options::default(), |config| config.creates_in_flight = 3);
    bed.server.plant(Fault {
        on: On::Create,
        times: 9,
        skip: 0,
        does: Does::Late { delay_ms: 400 },
    });
    let begun = Instant::now();
    let most = bed.run(async {
        let mut starting = tokio::task::JoinSet::new();
        for _ in 0..9 {
            let backend = bed.backend.clone();
            starting.spawn(async move { backend.create(&spec()).await.map(|_| ()) });
        }
        let mut most = 0;
        while !starting.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let finished = std::iter::from_fn(|| starting.try_join_next());
            let done = finished.map(|created| created.unwrap().unwrap()).count();
            most = most.max(done);
        }
        most
    });
    assert!(most <= 3, "{most} at once");
    assert!(begun.elapsed() >= Duration::from_millis(1_200), "three rounds of three");
    assert_eq!(bed.server.sandboxes().len(), 9);
}

#[test]
fn row05_a_start_has_one_budget() {
    let bed = Bed::with(Options::default(), |config| config.start = Duration::from_secs(2));
    bed.server.plant(Fault { on: On::Create, times: 100, skip: 0, does: answer(503, &[]) });
    let begun = Instant::now();
    fails(bed.try_create(&spec()), &["cannot create", "503", "not now"]);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn row06_a_full_service_is_waited_for() {
    let options = Options { quota: 2, ..Options::default() };
    let bed = Bed::with(options, |config| config.start = Duration::from_secs(1));
    let held = [bed.create(), bed.create()];
    let (waited, refusals) = bed.run(async {
        let backend = bed.backend.clone();
        let begun = Instant::now();
        let waiting = tokio::spawn(async move { backend.create(&spec()).await });
        // Longer than a start may take.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert!(!waiting.is_finished(), "a quota is no failure");
        let refusals = bed.server.seen(On::Create) - 2;
        held[0].destroy().await.unwrap();
        waiting.await.unwrap().unwrap();
        (begun.elapsed(), refusals)
    });
    assert!(waited >= Duration::from_millis(2_500));
    // The server asks for a second each time.
    assert!((2..=3).contains(&refusals), "{refusals} refusals in 2.5 s");
    let patience = |config: &mut rollgate_backends::E2bConfig| {
        config.quota_wait = Duration::from_secs(1);
    };
    let bed = Bed::with(Options { quota: 0, ..Options::default() }, patience);
    fails(bed.try_create(&spec()), &["no room", "429", "concurrent"]);
}

#[test]
fn row06_retry_after_is_honoured() {
    let bed = Bed::new();
    bed.server.once(On::Create, answer(429, &[("retry-after", "2")]));
    let begun = Instant::now();
    bed.create();
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn row35_a_sandbox_is_handed_over_when_it_runs_commands() {
    let bed = Bed::new();
    bed.server.once(On::Create, Does::UpLater { after_ms: 1_500 });
    let begun = Instant::now();
    let sandbox = bed.create();
    assert!(begun.elapsed() >= Duration::from_millis(1_500));
    assert_eq!(bed.sh(&*sandbox, "echo up").stdout, b"up\n");

    let bed = Bed::with(Options::default(), |config| config.start = Duration::from_secs(1));
    bed.server.once(On::Create, Does::UpLater { after_ms: 60_000 });
    let error = fails(bed.try_create(&spec()), &["port is not open", "was removed"]);
    assert!(bed.server.sandboxes().is_empty(), "{error}");
}

#[test]
fn row18_row53_a_failed_start_says_what_became_of_its_sandbox() {
    let bed = Bed::new();
    let gone = Does::EdgeWithoutSandbox;
    bed.server.plant(Fault { on: On::Start, times: 1, skip: 0, does: gone });
    let error = fails(bed.try_create(&spec()), &["e2b sandbox i", "start using it", "was removed"]);
    assert!(bed.server.sandboxes().is_empty(), "{error}");
}
