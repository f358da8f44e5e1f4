//! For tests: a task in a real local sandbox, with a shell script as its agent.

use std::path::PathBuf;
use std::sync::Arc;

use rollgate_backends::{Backend, Local, LocalConfig, Sandbox, Spec};
use rollgate_harness::{Ended as AgentEnded, HarnessError};

use super::about::{About, Ended};
use super::*;

/// A place to try tasks in.
pub(crate) struct Trial {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) cancel: Cancel,
    /// Hooks of the job.
    pub(crate) hooks: Vec<crate::hooks::Hook>,
}

/// How a trial went.
#[derive(Debug)]
pub(crate) struct Went {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<Reason>,
    pub(crate) reward: Option<Reward>,
}

impl Went {
    /// Outcome, reward and code of the reason in one line.
    pub(crate) fn told(&self) -> String {
        let reward = self.reward.as_ref().and_then(|reward| reward.reward);
        let reward = reward.map_or("none".to_owned(), |reward| reward.to_string());
        let code = self.reason.as_ref().map_or("", |reason| reason.code.as_str());
        format!("{} {reward} {code}", self.outcome).trim_end().to_owned()
    }

    pub(crate) fn why(&self) -> &str {
        self.reason.as_ref().map_or("", |reason| &reason.message)
    }
}

/// Runs the agent's one argument by `sh`, with the key in its environment.
struct Script;

impl Harness for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        Ok(Launch {
            files: Vec::new(),
            env: vec![("OPENAI_API_KEY".to_owned(), job.key.clone())],
            argv: vec!["sh".to_owned(), "-c".to_owned(), job.args[0].clone()],
            stdin: None,
            timeout: job.timeout,
            result_file: None,
        })
    }
    fn judge(&self, ended: &AgentEnded) -> AgentOutcome {
        match ended.exit_code {
            _ if ended.timed_out => AgentOutcome::TimedOut,
            Some(0) => AgentOutcome::Done,
            _ => AgentOutcome::Failed(ended.stderr.clone()),
        }
    }
    fn version_argv(&self, _job: &Job) -> Option<Vec<String>> {
        None
    }
}

/// The agent's key in trials.
pub(crate) const KEY: &str = "rg-the-agents-own-key";

impl Trial {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let backend = Local::new(LocalConfig {
            root: dir.path().join("boxes"),
            rollgate: PathBuf::from("/bin/true"),
            keep: false,
            path_env: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        });
        Self { dir, backend: Arc::new(backend), cancel: Cancel::never(), hooks: Vec::new() }
    }

    /// The task of a line's keys beside id and instruction. Relative host paths start at `dir`.
    pub(crate) fn task(&self, more: &str) -> Task {
        let more = more.replace('\n', " ");
        let line = format!(r#"{{"task_id":"t","instruction":"go"{more}}}"#);
        crate::task::parse(&self.dir.path().join("tasks.jsonl"), &line).unwrap().remove(0)
    }

    /// Logs of the attempt.
    pub(crate) fn log(&self, name: &str) -> String {
        let path = self.dir.path().join("logs").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// One attempt as the runtime makes it, but without a session; `agent` is a script.
    pub(crate) async fn run(&self, task: &Task, agent: &str) -> Went {
        let agent = Agent { args: vec![agent.to_owned()], ..Agent::named("script") };
        let logs = self.dir.path().join("logs");
        let about = About {
            task_id: task.task_id.clone(),
            attempt_id: "t.0".to_owned(),
            attempt: 0,
            retry: 0,
            agent: "script".to_owned(),
            session_id: "n1-0".to_owned(),
        };
        let mut hooks = Hooks::new(&self.hooks, task, about, (&logs, &self.cancel));
        let sandbox = self.backend.create(&Spec::new("t.0", "trial")).await.unwrap();
        let went = self.work(task, &agent, sandbox.as_ref(), &mut hooks).await;
        let went = went.unwrap_or_else(|halt| Went {
            outcome: halt.outcome,
            reason: Some(halt.reason),
            reward: None,
        });
        let ended = Ended::new(went.outcome, went.reason.as_ref(), went.reward.as_ref());
        hooks.on_error(Some(sandbox.as_ref()), &ended).await;
        sandbox.destroy().await.unwrap();
        let left = std::fs::read_dir(self.dir.path().join("boxes")).unwrap().count();
        assert_eq!(left, 0, "a sandbox is left");
        went
    }

    async fn work(
        &self,
        task: &Task,
        agent: &Agent,
        sandbox: &dyn Sandbox,
        hooks: &mut Hooks<'_>,
    ) -> Result<Went, Halt> {
        let logs = self.dir.path().join("logs");
        let mut place = Place::new(sandbox, task, agent, &logs, &self.cancel);
        place.prepare().await?;
        let urls = BaseUrls::new(Some("http://g"), "127.0.0.1:1".parse().unwrap());
        let served = Served { model: "m".to_owned(), max_context: 1_000 };
        let job = place.job(&urls, KEY, &served, None);
        place.before_run(hooks).await?;
        let ran = place.run(&Script, &job).await?;
        place.after_run(hooks, ran.outcome, ran.reason.as_ref()).await?;
        let mut went = Went { outcome: ran.outcome, reason: ran.reason, reward: None };
        if let Some(evaluate) = &task.evaluate {
            let bench = Bench {
                about: &hooks.about().clone(),
                outcome: went.outcome,
                task,
                logs: &logs,
                backend: &self.backend,
                spec: &Spec::new("t.0", "trial"),
            };
            match place.evaluate(evaluate, &bench).await? {
                Ok(reward) => went.reward = Some(reward),
                Err(why) => (went.outcome, went.reason) = (Outcome::VerifierFailed, Some(why)),
            }
        }
        if went.outcome.rewardable() {
            went.reward = hooks.rewarded(went.reward);
        }
        let ended = Ended::new(went.outcome, went.reason.as_ref(), went.reward.as_ref());
        hooks.notify(&ended).await?;
        Ok(went)
    }
}

#[tokio::test]
async fn a_work_directory_of_the_host_is_not_made() {
    let trial = Trial::new();
    let host = trial.dir.path().join("app");
    let task = trial.task(&format!(r#","workdir":"{}""#, host.display()));
    let went = trial.run(&task, "true").await;
    assert_eq!(went.told(), "infra_failed none workdir");
    assert!(went.why().contains("is refused"), "{}", went.why());
    assert!(!host.exists());
}
