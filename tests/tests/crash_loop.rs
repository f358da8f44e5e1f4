//! `kill -9` in a loop under load: no reply that an agent has is lost, and none is recorded twice.
//!
//! `ROLLGATE_CRASH_ROUNDS` says how often the process is killed. Every second round or more, the
//! kill comes right after the engine's reply: before its last byte is with the agent.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rollgate_tests::gate::{Gate, Session, Settings};
use rollgate_tests::program;
use rollgate_tests::swarm::client::{Client, Taking};
use rollgate_tests::swarm::engine::{Engine, Manners, spawn};
use rollgate_tests::swarm::{Chance, journals, numbers};
use serde_json::{Value, json};

const AGENTS: usize = 8;

/// A whole answer that an agent has.
struct Got {
    session: String,
    number: u64,
    whole: Instant,
}

struct Shared {
    over: AtomicBool,
    got: Mutex<Vec<Got>>,
}

/// What came of it.
#[derive(Debug)]
struct Found {
    rounds: usize,
    /// Kills between an engine's reply and its last byte to the agent.
    in_the_window: usize,
    answers: usize,
    lost: usize,
    duplicated: usize,
    /// Recorded turns whose answers no agent has whole: their agents asked again.
    unread: usize,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} kills, {} of them between reply and last byte: {} answers, {} lost, {} recorded \
             twice; {} recorded that nobody read",
            self.rounds, self.in_the_window, self.answers, self.lost, self.duplicated, self.unread
        )
    }
}

#[test]
fn kill_9_in_a_loop_loses_nothing_and_doubles_nothing() {
    let rounds = rounds(8);
    let found = crash(program::command, rounds);
    println!("figures: {found}");
    assert!(2 * found.in_the_window >= found.rounds, "{found:?}");
    assert!(found.answers > rounds, "{found:?}");
    assert_eq!((found.lost, found.duplicated), (0, 0), "{found:?}");
}

/// The same test sees what goes wrong when answers do not wait for their records. The program that
/// is built for this also writes its journal a little later, as a slow disk would.
#[test]
fn without_the_wait_for_the_record_the_loop_finds_a_loss() {
    let planted = planted_program();
    let command = |directory: &Path| {
        let mut command = std::process::Command::new(&planted);
        command.current_dir(directory).env("ROLLGATE_PLANTED", "AnswerBeforeRecord");
        command
    };
    let found = crash(command, rounds(8));
    println!("figures: without the wait for the record: {found}");
    assert!(found.lost > 0, "{found:?}");
}

fn rounds(usual: usize) -> usize {
    let given = std::env::var("ROLLGATE_CRASH_ROUNDS").ok();
    given.and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

fn planted_program() -> std::path::PathBuf {
    let mut cargo =
        std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(program::workspace());
    cargo.args(["build", "-p", "rollgate-tests", "--features", "planted"]);
    cargo.args(["--bin", "planted_rollgate", "--message-format=json-render-diagnostics"]);
    let built = cargo.output().expect("cargo can be run");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let lines = built.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| {
        (message["target"]["name"] == "planted_rollgate")
            .then(|| message["executable"].as_str().map(std::path::PathBuf::from))?
    });
    programs.next().expect("cargo says where the program lies")
}

fn crash(command: impl Fn(&Path) -> std::process::Command, rounds: usize) -> Found {
    let directory = tempfile::tempdir().unwrap();
    let manners = Manners { longest: Duration::from_millis(120), filler: 400, faults: 0 };
    let engine = Engine::start(manners);
    let replies = engine.watch();
    let mut settings = Settings::new(&engine.url);
    settings.shards = 2;
    let mut gate = Gate::start_with(command(directory.path()), directory.path(), &settings);
    settings.agents_port = gate.agents_port();
    let sessions: Vec<Session> = (0..AGENTS).map(|_| gate.create(&json!({}))).collect();
    let shared = Arc::new(Shared { over: AtomicBool::new(false), got: Mutex::default() });
    let agents: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(number, session)| {
            let (shared, session) = (shared.clone(), session.clone());
            let agents = gate.agents.clone();
            spawn(move || work(&shared, &agents, &session, number as u64))
        })
        .collect();
    let mut chance = Chance::new(7);
    let mut kills = Vec::new();
    for round in 0..rounds {
        // Agents find their way back, and the first replies come.
        while replies.try_recv().is_ok() {}
        let _ = replies.recv_timeout(Duration::from_secs(60)).expect("agents go on");
        match round % 4 {
            0 => std::thread::sleep(Duration::from_millis(chance.below(300))),
            _ => std::thread::sleep(Duration::from_micros(chance.below(1_500))),
        }
        kills.push(Instant::now());
        gate.process.kill();
        gate = Gate::start_with(command(directory.path()), directory.path(), &settings);
    }
    shared.over.store(true, Ordering::Relaxed);
    agents.into_iter().for_each(|agent| agent.join().unwrap());
    gate.process.terminate();
    judge(directory.path(), &engine, &sessions, &shared, &kills)
}

/// An agent: its conversation grows, and begins anew when it is long.
fn work(shared: &Shared, agents: &str, session: &Session, number: u64) {
    let mut client = Client::new(agents);
    let mut chance = Chance::new(number + 100);
    let mut messages: Vec<Value> = Vec::new();
    let mut asked = 0;
    while !shared.over.load(Ordering::Relaxed) {
        if messages.len() > 6 || messages.is_empty() {
            messages = vec![json!({"role": "system", "content": format!("Agent {number}.")})];
        }
        asked += 1;
        messages.push(json!({"role": "user", "content": format!("Question {asked}.")}));
        let body = json!({"model": "m", "messages": messages, "stream": chance.happens(400)});
        let Some(text) = ask(shared, &mut client, session, &body.to_string()) else { return };
        messages.push(json!({"role": "assistant", "content": text}));
    }
}

/// Asks until there is a whole answer; `None` when all is over.
fn ask(shared: &Shared, client: &mut Client, session: &Session, body: &str) -> Option<String> {
    let taking = Taking { pause: Duration::from_micros(300), patience: None };
    let begun = Instant::now();
    loop {
        let called = client.call("POST", "/v1/chat/completions", &session.key, body, taking);
        if let Ok(answer) = called {
            if answer.status == 200
                && let Some(text) = text_of(&answer.body)
            {
                let number = numbers(&text)[0];
                let got = Got { session: session.id.clone(), number, whole: answer.whole };
                shared.got.lock().unwrap().push(got);
                return Some(text);
            }
            assert!(matches!(answer.status, 200 | 429 | 502..=504), "{answer:?}");
        }
        if shared.over.load(Ordering::Relaxed) {
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "an agent gets no answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a whole answer says, in either framing.
fn text_of(body: &str) -> Option<String> {
    if let Ok(body) = serde_json::from_str::<Value>(body) {
        return body["choices"][0]["message"]["content"].as_str().map(str::to_owned);
    }
    body.ends_with("data: [DONE]\n\n").then_some(())?;
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let texts = events.filter_map(|event| {
        let event: Value = serde_json::from_str(event).ok()?;
        event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    });
    Some(texts.collect())
}

fn judge(
    directory: &Path,
    engine: &Engine,
    sessions: &[Session],
    shared: &Shared,
    kills: &[Instant],
) -> Found {
    let said = engine.said();
    let got = shared.got.lock().unwrap();
    let whole: std::collections::BTreeMap<u64, Instant> =
        got.iter().map(|got| (got.number, got.whole)).collect();
    let in_the_window = kills.iter().filter(|kill| {
        said.iter().enumerate().any(|(number, said)| {
            let written = said
                .written
                .is_some_and(|at| at < **kill && kill.duration_since(at) < Duration::from_secs(1));
            written && whole.get(&(number as u64)).is_none_or(|whole| whole > *kill)
        })
    });
    let (mut lost, mut duplicated, mut turns) = (0, 0, 0);
    for session in sessions {
        let recorded = journals::turns(&directory.join("state"), &session.id);
        turns += recorded.len();
        let recorded = journals::recorded(&recorded, &said);
        duplicated += recorded.values().filter(|(times, _)| *times > 1).count();
        let mine = got.iter().filter(|got| got.session == session.id);
        lost += mine.filter(|got| !matches!(recorded.get(&got.number), Some((_, true)))).count();
    }
    Found {
        rounds: kills.len(),
        in_the_window: in_the_window.count(),
        answers: got.len(),
        lost,
        duplicated,
        unread: turns.saturating_sub(got.len()),
    }
}
