//! Whole jobs: a running data plane, an agent that calls it, an out directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rollgate_controller::job::{Control, Job, JobError, Progress, Summary, Unwanted, run};
use rollgate_controller::outcome::Outcome;
use rollgate_controller::plan::{Backoff, Policy};
use rollgate_controller::pool::PoolConfig;
use rollgate_controller::pool::watermark::{Marks, Watch};
use rollgate_controller::programs::Programs;
use rollgate_controller::reach::BaseUrls;
use rollgate_controller::runtime::{Sandboxes, Served};
use rollgate_controller::sink::{AttemptLine, Format, RunSettings, read_samples};
use rollgate_controller::task::{Agent, parse};
use rollgate_pipeline::sample::{Sample, check};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::node;
use crate::sandboxes::{Fakes, words};

struct Bench {
    dir: tempfile::TempDir,
    gate: rollgate_shards::Gate,
    backend: Arc<Fakes>,
    policy: Policy,
    pool: PoolConfig,
    urls: Option<BaseUrls>,
    marks: Marks,
    cancels: Option<mpsc::Receiver<Unwanted>>,
    control: watch::Sender<Control>,
    told: Vec<String>,
}

fn quick(concurrency: usize, retries: u32, same_failures: u32) -> Policy {
    let backoff = Backoff { first_ms: 20, most_ms: 20 };
    Policy { concurrency, retries, same_failures, backoff, ..Policy::default() }
}

impl Bench {
    async fn new(backend: Fakes) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gate = node::gate(&dir.path().join("state")).await;
        let policy = quick(4, 1, 100);
        let control = watch::Sender::new(Control::Run);
        let pool = PoolConfig::default();
        let (backend, told) = (Arc::new(backend), Vec::new());
        let (urls, cancels, marks) = (None, None, Marks { disk_mib: 1, inodes: 1 });
        Self { dir, gate, backend, policy, pool, urls, marks, cancels, control, told }
    }

    async fn run(&mut self, n: u32, tasks: &str) -> Result<Summary, JobError> {
        let job = Job {
            tasks: parse(Path::new("tasks"), tasks).unwrap(),
            n,
            agent: Agent::named("words"),
            harnesses: words,
            backend: self.backend.clone(),
            served: Served { model: node::model_name(), max_context: 32_768 },
            programs: Programs::default(),
            urls: self.urls.clone(),
            policy: self.policy.clone(),
            hooks: Vec::new(),
            sandboxes: Sandboxes { owner: "test".to_owned(), ..Sandboxes::default() },
            pool: self.pool,
            watch: Watch { dirs: vec![self.dir.path().to_owned()], marks: self.marks },
            cancels: self.cancels.take(),
            out: self.out(),
            run: RunSettings { format: Format::Jsonl, settings: json!({}), notes: json!({}) },
        };
        let (told, control) = (&mut self.told, &self.control);
        let mut progress = |progress: Progress<'_>| {
            told.push(match progress {
                Progress::Planned { attempts, settled } => format!("planned {attempts} {settled}"),
                Progress::Started { attempt_id, retry } => {
                    if attempt_id.starts_with("hang") {
                        let control = control.clone();
                        tokio::spawn(async move {
                            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                            control.send_replace(Control::Abort);
                        });
                    }
                    format!("started {attempt_id} {retry}")
                }
                Progress::Retrying { attempt_id, reason } => {
                    format!("retrying {attempt_id} {}", reason.unwrap().code)
                }
                Progress::Ended(line) => format!("ended {} {}", line.attempt_id, line.outcome),
                Progress::Stopping(why) => format!("stopping {why}"),
                Progress::Forgotten { attempt_id } => format!("forgotten {attempt_id}"),
                Progress::Group { task_id, group } => {
                    format!("group {task_id} {}/{}", group.settled, group.attempts)
                }
                Progress::Held(why) => format!("held {why:?}"),
            });
        };
        let summary = run(job, self.gate.clone(), control.subscribe(), &mut progress).await;
        assert_eq!(self.backend.living.load(Ordering::SeqCst), 0, "a sandbox was left");
        for session in self.gate.list().await.unwrap() {
            assert_eq!(session.state, "closed", "{session:?}");
        }
        summary
    }

    fn out(&self) -> std::path::PathBuf {
        self.dir.path().join("out")
    }

    fn samples(&self) -> Vec<Sample> {
        let Ok(samples) = read_samples(&self.out()) else { return Vec::new() };
        samples.map(|sample| sample.unwrap().1).collect()
    }

    fn lines(&self) -> Vec<AttemptLine> {
        let text = std::fs::read_to_string(self.out().join("attempts.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn tasks_become_samples_and_a_second_run_has_nothing_to_do() {
    let mut bench = Bench::new(Fakes::default()).await;
    let tasks = r#"{"task_id":"a","instruction":"call 1","evaluate":{"command":["exit","0"]}}
        {"task_id":"b","instruction":"call-and-fail","evaluate":{"command":["exit","1"]}}
        {"task_id":"c","instruction":"call 1","evaluate":{"command":["exit","9"]}}
        {"task_id":"d","instruction":"call 2","limits":{"turns":1},"evaluate":{"command":["exit","0"]}}"#;
    let summary = bench.run(2, tasks).await.unwrap();
    let count = [Outcome::Done, Outcome::AgentFailed, Outcome::VerifierFailed, Outcome::Budget]
        .map(|outcome| summary.count(outcome));
    assert_eq!(count, [2, 2, 2, 2], "{summary:#?}");
    assert_eq!((summary.rewarded, summary.mean_reward), (6, Some(4.0 / 6.0)));
    assert_eq!((summary.samples, summary.unhealthy.len(), summary.turns), (8, 0, 8));
    assert!(!summary.all_well(), "verifiers failed");

    let samples = bench.samples();
    assert_eq!(samples.len(), 8);
    for sample in &samples {
        assert_eq!(check(sample), [], "{}", sample.sample_id);
        assert_eq!((sample.siblings, sample.group_id == sample.task_id), (2, true));
        let (outcome, reward) = match sample.task_id.as_str() {
            "a" => ("done", Some(1.0)),
            "b" => ("agent_failed", Some(0.0)),
            "c" => ("verifier_failed", None),
            _ => ("budget", Some(1.0)),
        };
        assert_eq!((sample.outcome.as_str(), sample.reward), (outcome, reward));
    }
    let log = bench.out().join("logs/a.1/evaluate.stdout");
    assert!(log.exists(), "{log:?}");

    let again = bench.run(2, tasks).await.unwrap();
    assert_eq!((again.settled_earlier, again.outcomes.len()), (8, 0));
    assert!(again.all_well());
    assert_eq!(bench.samples(), samples);
}

#[tokio::test]
async fn a_job_warns_of_turns_of_unknown_scene() {
    let mut bench = Bench::new(Fakes::default()).await;
    let known = r#"{"task_id":"a","instruction":"call 1","evaluate":{"command":["exit","0"]}}"#;
    let scenes = r#""scenes":[{"name":"loop","scene":"main","when":{"tool":["none-of-its"]}}]"#;
    let unknown = known.replace(r#""task_id":"a""#, &format!(r#""task_id":"b",{scenes}"#));
    let summary = bench.run(1, &format!("{known}\n{unknown}")).await.unwrap();
    let scenes = [("main", 1), ("unknown", 1)].map(|(scene, count)| (scene.to_owned(), count));
    assert_eq!(summary.scenes, scenes.into());
    assert_eq!(summary.warnings.len(), 1, "{summary:#?}");
    assert!(summary.warnings[0].starts_with("1 of 2 turns are of no known scene"));
    assert!(summary.all_well(), "a warning is no failure");
    let lines = bench.lines();
    let of = |task: &str| lines.iter().find(|line| line.task_id == task).unwrap().scenes.clone();
    assert_eq!(of("b"), [("unknown".to_owned(), 1)].into());
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(
        (&json["scenes"]["unknown"], &json["warnings"][0]),
        (&1.into(), &summary.warnings[0].as_str().into())
    );
}

#[tokio::test]
async fn infrastructure_failures_are_made_again_and_then_have_no_reward() {
    let mut bench = Bench::new(Fakes { fail_first: 1, ..Fakes::default() }).await;
    let task = r#"{"task_id":"a","instruction":"call 1","evaluate":{"command":["exit","0"]}}"#;
    let summary = bench.run(1, task).await.unwrap();
    assert_eq!((summary.count(Outcome::Done), summary.retries), (1, 1));
    assert_eq!(bench.lines()[0].earlier[0].code, "sandbox");
    let told =
        ["planned 1 0", "started a.0 0", "retrying a.0 sandbox", "started a.0 1", "ended a.0 done"];
    assert_eq!(bench.told[..5], told);
    assert_eq!(bench.told[5], "group a 1/1");

    // An agent that never calls the model is never graded.
    let silent = r#"{"task_id":"s","instruction":"exit 0","evaluate":{"command":["exit","0"]}}"#;
    let summary = bench.run(1, silent).await.unwrap();
    assert_eq!((summary.count(Outcome::InfraFailed), summary.rewarded), (1, 0));
    let line = &bench.lines()[1];
    assert_eq!((line.earlier.len(), line.samples.len()), (1, 0));
    let reason = line.reason.as_ref().unwrap();
    assert_eq!(reason.code, "no_model_call");
    assert!(reason.message.contains("/v1"), "{reason}");
    // It is not settled: a later run makes it again.
    assert_eq!(bench.run(1, silent).await.unwrap().settled_earlier, 0);
}

#[tokio::test]
async fn the_same_failure_in_a_row_stops_the_job() {
    let mut bench = Bench::new(Fakes { fail_first: 1_000, ..Fakes::default() }).await;
    bench.policy = quick(1, 0, 3);
    let summary = bench.run(10, r#"{"task_id":"a","instruction":"call 1"}"#).await.unwrap();
    assert_eq!((summary.count(Outcome::InfraFailed), summary.not_started), (3, 7));
    assert!(summary.stopped.unwrap().contains("3 attempts in a row failed the same way (sandbox)"));
    assert_eq!(summary.failures[0].reason.as_ref().unwrap().message, "no room");
}

#[tokio::test]
async fn an_abort_cancels_what_runs_and_cleans_up() {
    let mut bench = Bench::new(Fakes::default()).await;
    bench.policy.concurrency = 1;
    let tasks = r#"{"task_id":"hang","instruction":"hang","evaluate":{"command":["exit","0"]}}
        {"task_id":"b","instruction":"call 1"}"#;
    let summary = bench.run(1, tasks).await.unwrap();
    assert_eq!((summary.count(Outcome::Cancelled), summary.not_started), (1, 1));
    assert_eq!((summary.rewarded, bench.samples().len()), (0, 0));
    assert_eq!(bench.lines()[0].reason.as_ref().unwrap().message, "cancelled during step `agent`");
}

#[tokio::test]
async fn a_job_that_was_drained_before_starts_nothing() {
    let mut bench = Bench::new(Fakes::default()).await;
    bench.control.send_replace(Control::Drain);
    let tasks = r#"{"task_id":"a","instruction":"call 1"}
        {"task_id":"b","instruction":"call 1"}"#;
    bench.policy.concurrency = 1;
    let summary = bench.run(1, tasks).await.unwrap();
    assert_eq!((summary.outcomes.len(), summary.not_started), (0, 2));
}

#[tokio::test]
async fn a_wrong_job_is_refused_before_anything_is_made() {
    let mut bench = Bench::new(Fakes::default()).await;
    let task = r#"{"task_id":"a","instruction":"x","agent":{"name":"nobody"}}"#;
    let error = bench.run(1, task).await.unwrap_err().to_string();
    assert_eq!(error, "task `a`: there is no agent called `nobody`");
    assert!(bench.run(0, r#"{"task_id":"a","instruction":"x"}"#).await.is_err());
    assert!(!bench.out().exists());
}

#[tokio::test]
async fn attempts_and_groups_can_be_cancelled_while_the_job_runs() {
    let mut bench = Bench::new(Fakes::default()).await;
    bench.policy = quick(1, 1, 100);
    let (unwanted, cancels) = mpsc::channel(4);
    bench.cancels = Some(cancels);
    for what in [Unwanted::Attempt("a.1".into()), Unwanted::Group("b".into())] {
        unwanted.send(what).await.unwrap();
    }
    unwanted.send(Unwanted::Attempt("nobody.7".into())).await.unwrap();
    let tasks = ["a", "b", "c"]
        .map(|id| format!(r#"{{"task_id":"{id}","instruction":"call 1"}}"#))
        .join("\n");
    let summary = bench.run(2, &tasks).await.unwrap();
    assert_eq!((summary.count(Outcome::Done), summary.not_started), (3, 3), "{:?}", bench.told);
    assert_eq!((summary.groups_complete, summary.groups_partial), (1, 2));
    assert!(bench.told.contains(&"forgotten a.1".to_owned()), "{:?}", bench.told);
    // What was cancelled is made by a later run.
    assert_eq!(bench.run(2, &tasks).await.unwrap().count(Outcome::Done), 3);
}

#[tokio::test]
async fn a_job_whose_sandboxes_do_not_reach_the_gateway_fails_at_once_with_a_hint() {
    let mut bench = Bench::new(Fakes::default()).await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    bench.urls = Some(BaseUrls::new(Some(&format!("http://{closed}")), closed));
    let task = r#"{"task_id":"a","instruction":"call 1"}"#;
    let error = bench.run(8, task).await.unwrap_err();
    assert!(matches!(error, JobError::Surroundings(_)), "{error}");
    assert!(error.to_string().contains("--reach URL"), "{error}");
    assert_eq!(bench.lines().len(), 0, "no attempt was charged with it");
}

#[tokio::test]
async fn a_full_disk_is_told_before_anything_is_made() {
    let mut bench = Bench::new(Fakes::default()).await;
    bench.marks.disk_mib = u64::MAX;
    let task = r#"{"task_id":"a","instruction":"call 1"}"#;
    let error = bench.run(1, task).await.unwrap_err();
    assert!(matches!(error, JobError::Surroundings(_)), "{error}");
    assert!(error.to_string().contains("pool.disk_mib"), "{error}");
    assert_eq!(bench.backend.made.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_panic_in_an_attempt_leaves_no_sandbox_and_no_open_session() {
    let mut bench = Bench::new(Fakes::default()).await;
    bench.policy = quick(2, 0, 100);
    let tasks = r#"{"task_id":"a","instruction":"panic"}
        {"task_id":"b","instruction":"call 1"}"#;
    let summary = bench.run(1, tasks).await.unwrap();
    let both = (summary.count(Outcome::InfraFailed), summary.count(Outcome::Done));
    assert_eq!(both, (1, 1), "{summary:#?}");
    assert!(summary.reasons.contains_key("attempt_panic"), "{summary:#?}");
}

#[tokio::test]
async fn warm_sandboxes_are_used_and_none_is_left() {
    let mut bench = Bench::new(Fakes::default()).await;
    bench.policy = quick(2, 0, 100);
    bench.pool = PoolConfig { warm: 2, ..PoolConfig::default() };
    let summary = bench.run(6, r#"{"task_id":"a","instruction":"call 1"}"#).await.unwrap();
    assert_eq!(summary.count(Outcome::Done), 6);
    assert!(summary.sandboxes.warm >= 1, "{:?}", summary.sandboxes);
    assert!(summary.took_ms > 0);
}
