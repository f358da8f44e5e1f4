//! A real agent, started as its harness describes, on a gate and an engine of the test's.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rollgate_harness::{AgentOutcome, Ended, Harness, Job};
use rollgate_pipeline::sample::Sample;
use serde_json::{Value, json};

use crate::faulty::{Fault, Faulty};
use crate::gate::{Gate, Session, Settings};
use crate::scripted::Scripted;
use crate::{program, samples};

/// Longest run of an agent in a test.
const LONGEST: Duration = Duration::from_secs(240);

/// What a test asks for.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The agent's program.
    pub program: &'a Path,
    /// What the agent is told.
    pub instruction: &'a str,
    /// Options for the agent.
    pub args: &'a [&'a str],
    /// Variables that win over the harness's.
    pub env: &'a [(&'a str, &'a str)],
    /// Script of the engine.
    pub script: Value,
    /// Tokens of the model's window.
    pub max_context: u32,
    /// Tokens of the window that the agent is told of.
    pub told_context: u32,
    /// Seconds between keepalives.
    pub keepalive_s: u64,
    /// What goes wrong between the agent and the gate, at the first, second, … call.
    pub faults: Option<&'a [Fault]>,
}

impl<'a> Plan<'a> {
    /// Nothing goes wrong: one window, keepalives, no options.
    pub fn new(program: &'a Path, script: Value, max_context: u32) -> Self {
        Self {
            program,
            instruction: "Count the files here.",
            args: &[],
            env: &[],
            script,
            max_context,
            told_context: max_context,
            keepalive_s: 5,
            faults: None,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Run {
    /// The harness's judgement.
    pub outcome: AgentOutcome,
    /// How the agent ended.
    pub ended: Ended,
    /// The session's exchanges, in the order of their records.
    pub turns: Vec<Value>,
    /// The session's samples.
    pub samples: Vec<Sample>,
    /// Calls that the agent made, those that went wrong included; 0 where nothing was to go wrong.
    pub calls: usize,
    /// How long the agent ran.
    pub took: Duration,
    directory: tempfile::TempDir,
}

/// The demo model with a window of its own, so that the prompts of large agents fit.
pub fn model(directory: &Path, max_context: u32) -> PathBuf {
    let model = directory.join("model");
    std::fs::create_dir_all(&model).expect("a directory can be made");
    for name in ["template.jinja", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(program::demo_model().join(name), model.join(name)).expect("it is a copy");
    }
    let text = std::fs::read_to_string(program::demo_model().join("config.json"));
    let mut config: Value = serde_json::from_str(&text.expect("it is there")).expect("JSON");
    config["max_position_embeddings"] = json!(max_context);
    std::fs::write(model.join("config.json"), config.to_string()).expect("it can be written");
    model
}

/// Runs an agent to its end: one session of a gate in front of a scripted engine.
pub fn run(harness: &dyn Harness, plan: &Plan<'_>) -> Run {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let model = model(directory.path(), plan.max_context);
    let served = ["--model", model.to_str().expect("UTF-8"), "--name", "rollgate-model"];
    let engine = Scripted::start_with(directory.path(), &plan.script, &served);
    let settings = Settings { model, keepalive_s: plan.keepalive_s, ..Settings::new(&engine.url) };
    let gate = Gate::start(directory.path(), &settings);
    let front = plan.faults.map(|faults| Faulty::start(&gate.agents, faults));
    let session = gate.create(&json!({"agent": harness.name()}));
    let agents = front.as_ref().map_or(&gate.agents, |front| &front.url);
    let job = job(plan, agents, &session, directory.path());
    let begun = Instant::now();
    let ended = start(harness, &job, plan.env, directory.path());
    let took = begun.elapsed();
    gate.close(&session);
    let path = format!("/v1/sessions/{}/turns", session.id);
    let (status, text) = gate.call("GET", &path, None);
    assert_eq!(status, 200, "{text}");
    let turns = text.lines().map(|line| serde_json::from_str(line).expect("a turn is JSON"));
    Run {
        outcome: harness.judge(&ended),
        turns: turns.collect(),
        samples: samples::parse(&gate.samples(&session)),
        ended,
        calls: front.as_ref().map_or(0, Faulty::calls),
        took,
        directory,
    }
}

fn job(plan: &Plan<'_>, agents: &str, session: &Session, directory: &Path) -> Job {
    let inside = |name: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        path.to_str().expect("UTF-8").to_owned()
    };
    Job {
        instruction: plan.instruction.to_owned(),
        openai_base_url: format!("{agents}/v1"),
        anthropic_base_url: agents.to_owned(),
        key: session.key.clone(),
        model: "rollgate-model".to_owned(),
        program: Some(plan.program.to_str().expect("UTF-8").to_owned()),
        max_context: plan.told_context,
        workdir: inside("work"),
        home: inside("home"),
        rollgate: program::rollgate().to_str().expect("UTF-8").to_owned(),
        args: plan.args.iter().map(|&arg| arg.to_owned()).collect(),
        timeout: LONGEST,
    }
}

/// Starts the agent with nothing of this process's environment but where programs lie.
fn start(harness: &dyn Harness, job: &Job, env: &[(&str, &str)], directory: &Path) -> Ended {
    let launch = harness.launch(job).expect("the job can be described");
    for file in &launch.files {
        let path = Path::new(&file.path);
        std::fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("made");
        std::fs::write(path, &file.contents).expect("it can be written");
    }
    let mut command = Command::new(&launch.argv[0]);
    command.args(&launch.argv[1..]).current_dir(&job.workdir).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &job.home);
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.envs(env.iter().copied());
    let log = |name: &str| {
        let path = directory.join(name);
        (std::fs::File::create(&path).expect("a log can be made"), path)
    };
    let ((out, stdout), (err, stderr)) = (log("agent.out"), log("agent.err"));
    let mut child = command.stdin(Stdio::piped()).stdout(out).stderr(err).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(launch.stdin.as_deref().unwrap_or_default()).expect("it reads");
    drop(stdin);
    let begun = Instant::now();
    let (exit, timed_out) = loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            break (status.code(), false);
        }
        if begun.elapsed() > launch.timeout {
            child.kill().expect("it can be killed");
            break (child.wait().expect("it ends").code(), true);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let result = launch.result_file.and_then(|path| std::fs::read(path).ok());
    Ended { exit_code: exit, timed_out, stdout: text(&stdout), stderr: text(&stderr), result }
}

impl Run {
    /// `scene rule` of every exchange.
    pub fn scenes(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        self.turns.iter().map(|turn| text(&turn["scene"])).collect()
    }

    /// Links of each segment as `kind segment.turn`.
    pub fn links(&self) -> Vec<Vec<String>> {
        let written = |sample: &Sample| {
            let mut links: Vec<String> = sample
                .links
                .iter()
                .map(|link| {
                    let kind = serde_json::to_value(link.kind).expect("a kind is JSON");
                    let turn =
                        link.to.turn.map_or_else(|| "?".to_owned(), |turn| turn.0.to_string());
                    format!("{} {}.{turn}", kind.as_str().unwrap_or("?"), link.to.segment)
                })
                .collect();
            links.sort();
            links
        };
        self.samples.iter().map(written).collect()
    }

    /// Asserts that each turn of a trained scene is trained once and no other is, and that
    /// `rollgate verify` finds nothing.
    pub fn check_training(&self) {
        // A segment's path may lead over turns that are trained in another one.
        let spans = |sample: &Sample| {
            let mask = &sample.loss_mask;
            let spans = sample.turns.iter().filter(|span| mask[span.start as usize] == 1);
            spans.map(|span| (span.turn.0, span.end - span.start)).collect::<Vec<_>>()
        };
        let all = self.samples.iter().flat_map(spans);
        let mut trained: Vec<u32> = all.map(|(turn, _)| turn).collect();
        trained.sort_unstable();
        let loops = |scene: &str| matches!(scene, "main" | "subagent" | "compaction");
        let expected: Vec<u32> = (0..)
            .zip(self.scenes())
            .filter_map(|(turn, scene)| loops(&scene).then_some(turn))
            .collect();
        assert_eq!(trained, expected, "turns that are trained, each once: {:?}", self.scenes());
        for sample in &self.samples {
            let sampled: u32 = spans(sample).into_iter().map(|(_, tokens)| tokens).sum();
            let masked = sample.loss_mask.iter().filter(|mask| **mask == 1).count();
            assert_eq!(sampled as usize, masked, "{}", sample.sample_id);
        }
        let file = self.directory.path().join("samples-00001.jsonl");
        std::fs::write(&file, samples::to_jsonl(&self.samples)).expect("it can be written");
        let (code, report) = program::verify(self.directory.path(), &["samples-00001.jsonl"]);
        assert_eq!(code, Some(0), "{report:#}");
    }
}
