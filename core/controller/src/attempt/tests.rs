//! The inside of a sandbox, with a sandbox that is written here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rollgate_backends::{Backend, BackendError, Exit, Local, LocalConfig};
use rollgate_harness::{FileToWrite, HarnessError};

use super::about::About;
use super::*;
use crate::reward::REWARD_FILE_ENV;

/// A sandbox without processes: commands are answered from a table by their last argument.
#[derive(Default)]
struct Fake {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    seen: Mutex<Vec<Exec>>,
}

impl Fake {
    fn answer(&self, exec: &Exec) -> Result<Exit, BackendError> {
        let mut exit = Exit {
            code: Some(0),
            timed_out: false,
            stdout: b"out\n".to_vec(),
            stderr: Vec::new(),
            cut_bytes: 0,
            took: Duration::ZERO,
        };
        let text = exec.argv.last().unwrap();
        // Once broken, it stays so.
        let breaks = |exec: &Exec| exec.argv.last().is_some_and(|last| last == "break");
        let broken = breaks(exec) || self.seen.lock().unwrap().iter().any(breaks);
        match text.split_once(' ').unwrap_or((text, "")) {
            ("exit", code) => exit.code = Some(code.parse().unwrap()),
            ("grade", reward) => {
                let (_, path) = exec.env.iter().find(|(name, _)| name == REWARD_FILE_ENV).unwrap();
                assert!(self.files.lock().unwrap().keys().all(|file| file != path), "stale");
                self.files.lock().unwrap().insert(path.clone(), reward.as_bytes().to_vec());
            }
            ("late", _) => exit.timed_out = true,
            ("damage", _) => return Err(BackendError::Unusable("no such directory".to_owned())),
            _ if broken => return Err(BackendError::Unusable("gone".to_owned())),
            ("panic", _) => panic!("a bug"),
            ("complain", what) => {
                exit.code = Some(1);
                exit.stderr = what.as_bytes().to_vec();
            }
            _ => {}
        }
        Ok(exit)
    }
}

#[async_trait]
impl Sandbox for Fake {
    fn id(&self) -> &str {
        "fake"
    }
    fn workdir(&self) -> &str {
        "/w"
    }
    fn home(&self) -> &str {
        "/h"
    }
    fn rollgate(&self) -> &str {
        "/bin/rollgate"
    }
    async fn exec(&self, exec: Exec) -> Result<Exit, BackendError> {
        let exit = self.answer(&exec);
        self.seen.lock().unwrap().push(exec);
        exit
    }
    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), BackendError> {
        self.files.lock().unwrap().insert(path.to_owned(), contents.to_vec());
        Ok(())
    }
    async fn get(&self, path: &str, _cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }
    async fn destroy(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Runs its first argument.
struct Echo;

impl Harness for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }
    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        Ok(Launch {
            files: vec![FileToWrite { path: "/h/prompt".into(), contents: b"x".to_vec() }],
            env: vec![("KEY".to_owned(), job.key.clone())],
            argv: vec!["agent".to_owned(), job.args[0].clone()],
            stdin: None,
            timeout: job.timeout,
            result_file: None,
        })
    }
    fn judge(&self, ended: &Ended) -> AgentOutcome {
        match ended.exit_code {
            _ if ended.timed_out => AgentOutcome::TimedOut,
            Some(0) => AgentOutcome::Done,
            _ => AgentOutcome::Failed(ended.stderr.clone()),
        }
    }
    fn version_argv(&self, _job: &Job) -> Option<Vec<String>> {
        Some(vec!["agent".to_owned(), "--version".to_owned()])
    }
}

fn task(more: &str) -> Task {
    let line = format!(r#"{{"task_id":"t","instruction":"go"{more}}}"#);
    crate::task::parse(Path::new("t"), &line).unwrap().remove(0)
}

fn served() -> Served {
    Served { model: "m".to_owned(), max_context: 1_000 }
}

fn urls() -> BaseUrls {
    BaseUrls::new(Some("http://g"), "127.0.0.1:1".parse().unwrap())
}

/// A grading that needs no other sandbox.
async fn grade_in(place: &Place<'_>, evaluate: &Evaluate) -> Result<Result<Reward, Reason>, Halt> {
    let config = LocalConfig {
        root: "/nowhere".into(),
        rollgate: "/nowhere".into(),
        keep: false,
        path_env: String::new(),
    };
    let backend: Arc<dyn Backend> = Arc::new(Local::new(config));
    let about = About {
        task_id: "t".to_owned(),
        attempt_id: "t.0".to_owned(),
        attempt: 0,
        retry: 0,
        agent: "echo".to_owned(),
        session_id: "n-0".to_owned(),
    };
    let bench = Bench {
        about: &about,
        outcome: Outcome::Done,
        task: place.task,
        logs: place.logs,
        backend: &backend,
        spec: &rollgate_backends::Spec::new("t.0", "test"),
    };
    place.evaluate(evaluate, &bench).await
}

/// Set-up, agent and evaluation of a task whose agent does `agent`: how they end, and the commands.
async fn check(more: &str, agent: &str) -> (String, Vec<Exec>) {
    let (sandbox, task, logs) = (Fake::default(), task(more), tempfile::tempdir().unwrap());
    let agent = Agent { args: vec![agent.to_owned()], ..Agent::named("echo") };
    let cancel = Cancel::never();
    let place = Place::new(&sandbox, &task, &agent, logs.path(), &cancel);
    let result = async {
        place.prepare().await?;
        let job = place.job(&urls(), "rg-secret", &served(), None);
        let ran = place.run(&Echo, &job).await?;
        let reward = match &task.evaluate {
            Some(evaluate) => match grade_in(&place, evaluate).await? {
                Ok(reward) => format!("{:?}", reward.reward),
                Err(reason) => reason.code,
            },
            None => "none".to_owned(),
        };
        Ok::<_, Halt>(format!("{} {reward}", ran.outcome))
    };
    let told = match result.await {
        Ok(told) => told,
        Err(halt) => format!("{} {}", halt.outcome, halt.reason),
    };
    let seen = std::mem::take(&mut *sandbox.seen.lock().unwrap());
    (told, seen)
}

#[tokio::test]
async fn each_way_to_end_becomes_its_outcome() {
    let graded = r#","evaluate":{"command":["grade 0.5"]}"#;
    for (more, agent, expected) in [
        (graded, "ok", "done Some(0.5)"),
        (graded, "complain sorry", "agent_failed Some(0.5)"),
        (graded, "late", "agent_timeout Some(0.5)"),
        ("", "ok", "done none"),
        (r#","evaluate":{"command":["exit 1"]}"#, "ok", "done Some(0.0)"),
        (r#","evaluate":{"command":["exit 7"]}"#, "ok", "done reward_missing"),
        (r#","evaluate":{"command":["grade nan"]}"#, "ok", "done reward_unusable"),
        (r#","evaluate":{"command":["late"]}"#, "ok", "done evaluate_timeout"),
        (r#","evaluate":{"command":["break"]}"#, "ok", "infra_failed evaluate: gone"),
        (r#","evaluate":{"command":["damage"]}"#, "ok", "done evaluate"),
        ("", "break", "infra_failed agent: gone"),
        ("", "panic", "infra_failed agent_panic: a bug in Rollgate: a bug"),
        (
            r#","setup":["ok",["complain","complain no make"]]"#,
            "ok",
            "infra_failed setup: `setup[1]` exited with 1; its last words: \"no make\"",
        ),
    ] {
        assert_eq!(check(more, agent).await.0, expected, "{more} {agent}");
    }
}

#[tokio::test]
async fn only_the_agent_gets_the_key_and_all_run_in_the_work_directory() {
    let more = r#","workdir":"repo","files":{"a/b":"x"},"setup":["make"],
        "env":{"KEY":"mine","A":"b"},"evaluate":{"command":"exit 0"}"#
        .replace('\n', "");
    let (_, seen) = check(&more, "ok").await;
    let argv: Vec<String> = seen.iter().map(|exec| exec.argv.join(" ")).collect();
    assert_eq!(argv, ["mkdir -p -- /w/repo", "sh -c make", "agent ok", "sh -c exit 0"]);
    for exec in &seen {
        let secret = exec.env.iter().any(|(_, value)| value.contains("rg-secret"));
        assert_eq!(secret, exec.argv[0] == "agent", "{exec:?}");
        assert_eq!(exec.env.iter().filter(|(name, _)| name == "KEY").count(), 1);
        let made = exec.argv[0] == "mkdir";
        assert_eq!(exec.cwd.as_deref(), if made { None } else { Some("/w/repo") });
    }
}

#[tokio::test]
async fn files_and_logs_lie_where_they_belong() {
    let (sandbox, task) = (Fake::default(), task(r#","files":{"a":"x","/abs/b":"y"}"#));
    let agent = Agent { args: vec!["complain oh".into()], ..Agent::named("echo") };
    let (logs, cancel) = (tempfile::tempdir().unwrap(), Cancel::never());
    let place = Place::new(&sandbox, &task, &agent, logs.path(), &cancel);
    place.prepare().await.unwrap();
    let job = place.job(&urls(), "rg-secret", &served(), None);
    let ran = place.run(&Echo, &job).await.unwrap();
    let files: Vec<String> = sandbox.files.lock().unwrap().keys().cloned().collect();
    assert_eq!(files, ["/abs/b", "/h/prompt", "/w/a"]);
    let read = |name: &str| std::fs::read_to_string(logs.path().join(name)).unwrap();
    assert_eq!((read("agent.stdout"), read("agent.stderr")), ("out\n".into(), "oh".into()));
    let hint = ran.no_model_call(&job.openai_base_url).to_string();
    assert!(hint.contains("exited with 1") && hint.contains("http://g/v1") && hint.contains("oh"));
}

#[tokio::test]
async fn a_pinned_version_must_be_there() {
    let (sandbox, task, cancel) = (Fake::default(), task(""), Cancel::never());
    for (pinned, expected) in [(None, true), (Some("out"), true), (Some("2.0"), false)] {
        let agent = Agent {
            version: pinned.map(str::to_owned),
            args: vec!["ok".into()],
            ..Agent::named("echo")
        };
        let place = Place::new(&sandbox, &task, &agent, Path::new("/nowhere"), &cancel);
        let job = place.job(&urls(), "k", &served(), None);
        let version = place.version(&Echo, &job).await;
        assert_eq!(version.is_ok(), expected, "{version:?}");
    }
}

#[tokio::test]
async fn row_38_a_sandbox_that_dies_while_it_is_graded_is_infrastructure() {
    for command in ["grade 1", "break"] {
        let more = format!(r#","evaluate":{{"command":["{command}"]}}"#);
        let (told, _) = check(&more, "ok").await;
        let dies = command == "break";
        assert_eq!(told, if dies { "infra_failed evaluate: gone" } else { "done Some(1.0)" });
    }
}
