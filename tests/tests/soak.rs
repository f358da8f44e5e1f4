//! Many agents for a long time, with engines that fail and agents that vanish: memory stays flat,
//! nothing gets stuck, and the control port answers all the while.
//!
//! `ROLLGATE_SOAK_AGENTS` and `ROLLGATE_SOAK_SECONDS` make it larger; `ROLLGATE_SOAK_P99_MS` is what
//! the control port may take at the 99th percentile: on a machine that does other work meanwhile,
//! more than the 10 ms that are promised.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rollgate_tests::gate::{Gate, Settings, TOKEN};
use rollgate_tests::swarm::Chance;
use rollgate_tests::swarm::client::{Client, Taking};
use rollgate_tests::swarm::engine::{Engine, Manners, spawn};
use serde_json::{Value, json};

/// Longest time that an answer may take: every deadline of the gateway is shorter.
const STUCK: Duration = Duration::from_secs(100);

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[derive(Default)]
struct Counts {
    over: AtomicBool,
    answers: AtomicU64,
    faults: AtomicU64,
    vanished: AtomicU64,
    stuck: Mutex<Vec<String>>,
}

impl Counts {
    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

#[test]
fn many_agents_and_many_faults_leave_memory_flat_and_the_control_port_quick() {
    let (agents, seconds) =
        (setting("ROLLGATE_SOAK_AGENTS", 100), setting("ROLLGATE_SOAK_SECONDS", 30));
    let p99 = Duration::from_millis(setting("ROLLGATE_SOAK_P99_MS", 500));
    let directory = tempfile::tempdir().unwrap();
    let manners = Manners { longest: Duration::from_millis(400), filler: 60, faults: 60 };
    let engine = Engine::start(manners);
    let mut settings = Settings::new(&engine.url);
    settings.shards = 2;
    settings.limits = vec![("engine_ms", 20_000), ("park_ms", 10_000)];
    let gate = Gate::start(directory.path(), &settings);
    let counts = Arc::new(Counts::default());
    let threads: Vec<_> = (0..agents)
        .map(|number| {
            let (counts, agents, control) =
                (counts.clone(), gate.agents.clone(), gate.control.clone());
            spawn(move || live(&counts, &agents, &control, number))
        })
        .collect();
    let seen = watch(&gate, Duration::from_secs(seconds));
    counts.over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "figures: {agents} agents, {seconds} s: {} answers, {} engine faults, {} of them seen by agents, {} agents vanished; control port p99 {:?}, \
         worst ten seconds {:?}; memory after warm-up {:.1} MB, at the end {:.1} MB",
        read(&counts.answers),
        engine.faults(),
        read(&counts.faults),
        read(&counts.vanished),
        seen.p99(),
        seen.worst(),
        seen.warm_mb(),
        seen.end_mb(),
    );
    assert_eq!(*counts.stuck.lock().unwrap(), Vec::<String>::new());
    assert!(read(&counts.answers) > agents, "most is answered");
    assert!(engine.faults() > 0 && read(&counts.vanished) > 0, "faults are injected");
    assert!(seen.worst() < p99, "the control port is slow: {:?}", seen.worst());
    let (warm, end) = (seen.warm_mb(), seen.end_mb());
    assert!(end < warm * 1.15 + 8.0, "memory grows: {warm} MB, then {end} MB");
    nothing_is_left(&gate);
}

/// Exchanges whose agents are gone end, too.
fn nothing_is_left(gate: &Gate) {
    let begun = Instant::now();
    loop {
        let metrics = gate.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("rollgate_in_flight"));
        let left: f64 = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        if left == 0.0 {
            return;
        }
        assert!(begun.elapsed() < STUCK, "{left} exchanges are stuck");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// One agent after another, each with a session of its own, until all is over.
fn live(counts: &Counts, agents: &str, control: &str, number: u64) {
    let mut chance = Chance::new(number + 1);
    let (mut client, mut plane) = (Client::new(agents), Client::new(control));
    pause(counts, chance.below(3_000));
    while !counts.over() {
        let made = plane.call("POST", "/v1/sessions", TOKEN, "{}", Taking::default());
        let made: Option<Value> = made
            .ok()
            .filter(|it| it.status < 300)
            .and_then(|it| serde_json::from_str(&it.body).ok());
        let Some(made) = made else {
            pause(counts, 200);
            continue;
        };
        let key = made["key"].as_str().unwrap().to_owned();
        episode(counts, &mut client, &mut chance, &key);
        let path = format!("/v1/sessions/{}", made["session_id"].as_str().unwrap());
        // A session that is not deleted now is one of a few.
        let _ = plane.call("DELETE", &path, TOKEN, "", Taking::default());
    }
}

fn episode(counts: &Counts, client: &mut Client, chance: &mut Chance, key: &str) {
    let mut messages = vec![json!({"role": "system", "content": "A shell."})];
    for turn in 0..2 + chance.below(6) {
        messages.push(json!({"role": "user", "content": format!("Step {turn}: go on.")}));
        let body = json!({"model": "m", "messages": messages, "stream": chance.happens(500)});
        let body = body.to_string();
        let mut answer = None;
        for _ in 0..4 {
            if counts.over() {
                return;
            }
            answer = ask(counts, client, chance, key, &body);
            if answer.is_some() {
                break;
            }
            pause(counts, 100 + chance.below(1_000));
        }
        let Some(answer) = answer else { return };
        messages.push(json!({"role": "assistant", "content": answer}));
        pause(counts, 1_000 + chance.below(4_000));
    }
}

fn ask(
    counts: &Counts,
    client: &mut Client,
    chance: &mut Chance,
    key: &str,
    body: &str,
) -> Option<String> {
    let vanishes = chance.happens(60);
    let patience = Duration::from_millis(chance.below(500) + 1);
    let taking =
        Taking { pause: Duration::ZERO, patience: Some(if vanishes { patience } else { STUCK }) };
    let begun = Instant::now();
    let called = client.call("POST", "/v1/chat/completions", key, body, taking);
    if vanishes {
        counts.vanished.fetch_add(1, Ordering::Relaxed);
    } else if begun.elapsed() >= STUCK {
        counts.stuck.lock().unwrap().push(format!("{called:?}"));
    }
    let answer = called.ok()?;
    if answer.status != 200 {
        counts.faults.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    counts.answers.fetch_add(1, Ordering::Relaxed);
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    Some(body["choices"][0]["message"]["content"].as_str().unwrap_or("well").to_owned())
}

/// A pause that ends when all is over.
fn pause(counts: &Counts, ms: u64) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until && !counts.over() {
        std::thread::sleep(Duration::from_millis(ms.min(100)));
    }
}

/// What was seen of the process meanwhile.
#[derive(Default)]
struct Seen {
    /// Memory in use, once a second, in megabytes.
    memory: Vec<f64>,
    /// How long the control port took, and in which ten seconds.
    took: Vec<(u64, Duration)>,
}

impl Seen {
    fn p99(&self) -> Duration {
        percentile(self.took.iter().map(|(_, took)| *took).collect())
    }

    /// The 99th percentile of the worst ten seconds.
    fn worst(&self) -> Duration {
        let last = self.took.last().map_or(0, |(window, _)| *window);
        let of = |window| {
            let took = self.took.iter().filter(|(at, _)| *at == window);
            percentile(took.map(|(_, took)| *took).collect())
        };
        (0..=last).map(of).max().unwrap_or_default()
    }

    /// Within the second fifth of the time.
    fn warm_mb(&self) -> f64 {
        let fifth = self.memory.len() / 5;
        highest(&self.memory[fifth..2 * fifth + 1])
    }

    fn end_mb(&self) -> f64 {
        highest(&self.memory[self.memory.len() - self.memory.len() / 5 - 1..])
    }
}

fn highest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

fn percentile(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    let at = (took.len() * 99 / 100).min(took.len().saturating_sub(1));
    took.get(at).copied().unwrap_or_default()
}

/// Looks at memory and control port for so long.
fn watch(gate: &Gate, limit: Duration) -> Seen {
    let begun = Instant::now();
    let mut seen = Seen::default();
    let mut control = Client::new(&gate.control);
    while begun.elapsed() < limit {
        let at = Instant::now();
        for path in ["/healthz", "/v1/sessions/none"] {
            let asked = Instant::now();
            let answer = control.call("GET", path, TOKEN, "", Taking::default());
            assert!(answer.is_ok(), "the control port: {answer:?}");
            seen.took.push((begun.elapsed().as_secs() / 10, asked.elapsed()));
        }
        if seen.memory.len() as u64 <= begun.elapsed().as_secs() {
            seen.memory.push(memory_mb(gate.process.id()));
        }
        std::thread::sleep(Duration::from_millis(20).saturating_sub(at.elapsed()));
    }
    seen
}

/// Resident memory of a process.
fn memory_mb(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() / 1_024.0
}
