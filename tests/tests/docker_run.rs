//! The Harbor examples in containers of a real Docker engine: folders in; rewards, clean samples
//! and an empty engine out. With the scripted agent, Claude Code and Codex.

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use rollgate_tests::docker::{Engine, NETWORK};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, samples};
use serde_json::{Value, json};

/// Attempts of each task.
const N: usize = 4;
/// Tasks of the examples.
const TASKS: usize = 3;
const MAX_CONTEXT: &str = "65536";

/// One engine for all, and one run at a time.
static ENGINE: LazyLock<Mutex<Option<Engine>>> = LazyLock::new(|| Mutex::new(Engine::start()));

/// No task is solved outside of a container that is made of the task's own image.
const IN_CONTAINER: &str = "test -f /.dockerenv && test \"$PWD\" = /app";
const SQUARES: &str = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $((n * n)); done > squares.txt";
/// Most of what is asked: an empty file is counted wrong.
const MOST: &str =
    "echo 'test -f $1 || exit 1; set -- $(wc -w < $1); test $1 -gt 0 && echo $1' > count.sh";
const WRONG: &str = "echo echo wrong > index.sh";

/// An agent and how it calls for a command.
struct Case {
    agent: &'static str,
    /// Whether it comes in a bundle.
    bundled: bool,
    call: fn(&str) -> Value,
}

const SCRIPTED: Case = Case {
    agent: "scripted",
    bundled: false,
    call: |command| json!({"name": "bash", "arguments": {"command": command}}),
};
const CLAUDE_CODE: Case = Case {
    agent: "claude-code",
    bundled: true,
    call: |command| {
        let arguments = json!({"command": command, "description": "Do it"});
        json!({"name": "Bash", "arguments": arguments})
    },
};
const CODEX: Case = Case {
    agent: "codex",
    bundled: true,
    call: |command| json!({"name": "exec_command", "arguments": {"cmd": command}}),
};

/// What the model says: each task's command, by a word of its instruction; then that it is done.
fn script(case: &Case) -> Value {
    let solve = |word: &str, command: &str| {
        json!({
            "match": {"prompt_contains": word, "turn": 0},
            "reasoning": "One command does it.",
            "tool_calls": [(case.call)(&format!("{IN_CONTAINER} && {command}"))],
            "non_canonical": 2,
        })
    };
    json!({
        "replies": [
            solve("squares.txt", SQUARES),
            solve("count.sh", MOST),
            solve("index.sh", WRONG),
        ],
        "otherwise": {"content": "Done."},
    })
}

/// The directory of bundles, with the agent's in it.
fn bundles(agent: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("ROLLGATE_CACHE")
        .map_or_else(|| home().join(".cache/rollgate"), PathBuf::from);
    let dir = cache.join("agents");
    std::fs::create_dir_all(&dir).unwrap();
    let into = dir.to_str().unwrap();
    let installed = program::run(&dir, &["agents", "install", agent, "--into", into]);
    assert_eq!(installed.code, Some(0), "{agent} cannot be installed: {installed:#?}");
    dir
}

/// Runs the examples and checks all that comes out of it.
fn check(case: &Case) {
    let skip = case.bundled && std::env::var_os("ROLLGATE_SKIP_REAL").is_some_and(|v| v == "1");
    if skip {
        eprintln!("left out, since ROLLGATE_SKIP_REAL=1: {} in containers", case.agent);
        return;
    }
    let docker = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(docker) = docker.as_ref() else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let config = format!(
        "[backends.docker]\nhost = {:?}\nnetwork = {NETWORK:?}\n",
        docker.socket().to_str().unwrap()
    );
    std::fs::write(at.join("run.toml"), config).unwrap();
    let engine = Scripted::start_with(at, &script(case), &["--max-context", MAX_CONTEXT]);
    let (examples, model) = (program::workspace().join("examples/harbor"), program::demo_model());
    let n = N.to_string();
    let mut arguments = vec!["run", examples.to_str().unwrap(), "--agent", case.agent, "--n", &n];
    arguments.extend(["--backend", "docker", "--config", "run.toml", "--engine", &engine.url]);
    arguments.extend(["--model", model.to_str().unwrap(), "--concurrency", "2", "-o", "out"]);
    let agents = case.bundled.then(|| bundles(case.agent));
    if let Some(dir) = &agents {
        arguments.extend(["--agents", dir.to_str().unwrap()]);
    }
    let ran = program::run(at, &arguments);
    let told = || format!("{ran:#?}\n{}\n{}", engine.process.logs(), last_words(&at.join("out")));
    assert_eq!(ran.code, Some(0), "{}", told());
    rewarded(&at.join("out"));
    clean(at);
    assert_eq!(docker.containers(), [""; 0], "containers that are left");
    println!("{}", ran.stdout);
}

/// Every attempt is done, with the reward that its `tests/test.sh` gives.
fn rewarded(out: &Path) {
    let text = std::fs::read_to_string(out.join("attempts.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (task, reward) in [("squares", 1.0), ("word-count", 0.75), ("index", 0.0)] {
        let of_task = || lines.iter().filter(|line| line["task_id"] == task);
        assert_eq!(of_task().count(), N, "{task}: {text}");
        for line in of_task() {
            let found = (&line["outcome"], &line["reward"]);
            assert_eq!(found, (&json!("done"), &json!(reward)), "{line}");
            if task == "word-count" {
                let parts = json!({"counted": 2.0, "missing": 1.0});
                assert_eq!(line["reward_parts"], parts, "{line}");
            }
        }
    }
    assert_eq!(lines.len(), TASKS * N);
}

/// One healthy sample of each attempt, of two turns, and `rollgate verify` finds no fault.
fn clean(at: &Path) {
    let (code, report) = program::verify(at, &["out"]);
    assert_eq!(code, Some(0), "{report:#}");
    let samples = samples::read(&at.join("out"));
    assert_eq!(samples.len(), TASKS * N);
    for sample in &samples {
        let (id, health) = (&sample.sample_id, sample.health.reasons());
        assert!(health.is_empty(), "{id}: {health:?}");
        assert!(sample.reward.is_some(), "{id} has no reward");
        assert_eq!(sample.turns.len(), 2, "{id}: a command, and that it is done");
    }
}

/// The ends of all attempts' logs.
fn last_words(out: &Path) -> String {
    let mut told = std::fs::read_to_string(out.join("attempts.jsonl")).unwrap_or_default();
    let attempts = std::fs::read_dir(out.join("logs")).into_iter().flatten().flatten();
    for file in attempts.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten()) {
        let Ok(file) = file else { continue };
        let text = std::fs::read(file.path()).unwrap_or_default();
        let end = String::from_utf8_lossy(&text[text.len().saturating_sub(1_000)..]).into_owned();
        told += &format!("-- {}\n{end}\n", file.path().display());
    }
    told
}

#[test]
fn the_scripted_agent_in_containers() {
    check(&SCRIPTED);
}

#[test]
fn claude_code_in_containers() {
    check(&CLAUDE_CODE);
}

#[test]
fn codex_in_containers() {
    check(&CODEX);
}
