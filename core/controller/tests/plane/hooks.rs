//! Hooks through whole jobs: what is told of attempts that go well, that fail, and of retries.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rollgate_controller::job::{Control, Job, run};
use rollgate_controller::outcome::Outcome;
use rollgate_controller::plan::Policy;
use rollgate_controller::pool::PoolConfig;
use rollgate_controller::pool::watermark::{Marks, Watch};
use rollgate_controller::programs::Programs;
use rollgate_controller::runtime::{Sandboxes, Served};
use rollgate_controller::sink::{AttemptLine, Format, RunSettings};
use rollgate_controller::task::{Agent, parse};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::node;
use crate::sandboxes::{Fakes, words};

/// A server that takes every message.
async fn listener() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/told", listener.local_addr().unwrap());
    let told: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = told.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let body = loop {
                assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "hung up");
                let text = String::from_utf8_lossy(&bytes);
                if let Some((_, body)) = text.split_once("\r\n\r\n")
                    && let Ok(body) = serde_json::from_str::<Value>(body)
                {
                    break body;
                }
            };
            kept.lock().unwrap().push(body);
            let answer = b"HTTP/1.1 204 x\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
    });
    (url, told)
}

async fn job(backend: Fakes, tasks: &str) -> Vec<AttemptLine> {
    let dir = tempfile::tempdir().unwrap();
    let gate = node::gate(&dir.path().join("state")).await;
    let job = Job {
        tasks: parse(Path::new("tasks"), tasks).unwrap(),
        n: 1,
        agent: Agent::named("words"),
        harnesses: words,
        backend: Arc::new(backend),
        served: Served { model: node::model_name(), max_context: 32_768 },
        programs: Programs::default(),
        urls: None,
        policy: Policy { concurrency: 1, retries: 1, same_failures: 100, ..Policy::default() },
        hooks: Vec::new(),
        sandboxes: Sandboxes { owner: "test".to_owned(), ..Sandboxes::default() },
        pool: PoolConfig::default(),
        watch: Watch { dirs: Vec::new(), marks: Marks::default() },
        cancels: None,
        out: dir.path().join("out"),
        run: RunSettings { format: Format::Jsonl, settings: json!({}), notes: json!({}) },
    };
    let control = watch::Sender::new(Control::Run);
    run(job, gate, control.subscribe(), &mut |_| {}).await.unwrap();
    let text = std::fs::read_to_string(dir.path().join("out/attempts.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pick(told: &Mutex<Vec<Value>>) -> Vec<Value> {
    let told = told.lock().unwrap();
    let of = |one: &Value| {
        json!([one["event"], one["attempt_id"], one["retry"], one["outcome"], one["reward"]])
    };
    told.iter().map(of).collect()
}

#[tokio::test]
async fn each_try_is_told_once_and_with_its_reward() {
    let (url, told) = listener().await;
    let hooks = format!(
        r#""hooks":[{{"at":"after_run","notify":"{url}"}},{{"at":"on_error","notify":"{url}"}},
        {{"at":"after_run","program":"echo '{{\"reward_parts\":{{\"size\":2}}}}'","policy":"required"}}]"#
    )
    .replace('\n', "");
    let tasks = format!(
        r#"{{"task_id":"good","instruction":"call 1","evaluate":{{"command":["exit","0"]}},{hooks}}}
{{"task_id":"fails","instruction":"call-and-fail","evaluate":{{"command":["exit","1"]}},{hooks}}}
{{"task_id":"ungraded","instruction":"call 1","evaluate":{{"command":["exit","9"]}},{hooks}}}"#
    );
    // The first sandbox is not made: a failure that is told, and a second try.
    let lines = job(Fakes { fail_first: 1, ..Fakes::default() }, &tasks).await;
    let expected = [
        json!(["on_error", "good.0", 0, "infra_failed", null]),
        json!(["after_run", "good.0", 1, "done", 1.0]),
        json!(["after_run", "fails.0", 0, "agent_failed", 0.0]),
        json!(["on_error", "fails.0", 0, "agent_failed", 0.0]),
        json!(["after_run", "ungraded.0", 0, "verifier_failed", null]),
        json!(["on_error", "ungraded.0", 0, "verifier_failed", null]),
    ];
    let mut told = pick(&told);
    told.sort_by_key(|one| expected.iter().position(|other| other == one));
    assert_eq!(told, expected);
    let by_id = |id: &str| lines.iter().find(|line| line.task_id == id).unwrap();
    assert_eq!(by_id("good").reward_parts["size"], 2.0);
    assert_eq!((by_id("fails").reward, by_id("fails").reward_parts.len()), (Some(0.0), 1));
    assert_eq!((by_id("ungraded").reward, by_id("ungraded").reward_parts.len()), (None, 0));
}

#[tokio::test]
async fn row_39_a_required_hook_that_fails_is_tried_again_and_never_rewarded() {
    let tasks = r#"{"task_id":"a","instruction":"call 1","evaluate":{"command":["exit","0"]},
        "hooks":[{"at":"after_run","program":"exit 3","policy":"required"}]}"#
        .replace('\n', "");
    let lines = job(Fakes::default(), &tasks).await;
    let line = &lines[0];
    assert_eq!((line.outcome, line.reward, line.samples.len()), (Outcome::InfraFailed, None, 0));
    assert_eq!((line.earlier.len(), line.reason.as_ref().unwrap().code.as_str()), (1, "hook"));
}
