//! Whether two shards do twice the work of one: exchanges whose transport is memory, on one thread and
//! on two. Threads share what shards of one process share: the model, of which each has its own
//! tokenizer and templates. `cargo bench -p rollgate-pipeline --features testing --bench shards`;
//! exits with 1 below [`LEAST`].

#![expect(clippy::disallowed_methods, reason = "a bench has a clock")]
#![expect(clippy::print_stdout, reason = "it is how a bench tells")]

mod play;

use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rollgate_pipeline::exchange::Desk;
use rollgate_pipeline::render::Model;
use rollgate_pipeline::render::sample_model::test_model;
use serde_json::json;

use play::{Play, ids, reply, request};

/// What two shards do at least, in parts of what one does.
const LEAST: f64 = 1.8;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(2);
/// Turns of a session, of which each sends all that was said before.
const TURNS: usize = 24;
const ANSWER: &str = "<think>\nI should look at the file first.\n</think>\n\nLet me see.<tool_call>\n\
    {\"name\": \"read\", \"arguments\": {\"path\": \"src/lib.rs\"}}\n</tool_call><|im_end|>";

/// What agents and engine say, made beforehand: only the shard's own work is measured.
struct Script {
    requests: Vec<Vec<u8>>,
    reply: Vec<u8>,
}

impl Script {
    fn new(model: &Model) -> Self {
        let call = json!({"role": "assistant", "reasoning_content": "I should look at the file first.",
            "content": "Let me see.", "tool_calls": [{"id": "c1", "type": "function",
            "function": {"name": "read", "arguments": "{\"path\": \"src/lib.rs\"}"}}]});
        let mut messages = vec![json!({"role": "user", "content": "long ".repeat(1_000)})];
        let mut requests = Vec::new();
        for turn in 0..TURNS {
            requests.push(request(&json!(messages)));
            messages.push(call.clone());
            let content = format!("line {turn} of the file ").repeat(80);
            messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": content}));
        }
        Self { requests, reply: reply(&ids(model, ANSWER)) }
    }
}

/// Plays sessions until the time is over; how many exchanges that were.
fn work(model: &Arc<Model>, script: &Script, start: &Barrier) -> Option<u64> {
    let mut exchanges = 0;
    start.wait();
    let until = Instant::now() + ROUND;
    while Instant::now() < until {
        let mut play = Play::new(model.clone(), Desk::default())?;
        for request in &script.requests {
            let (mut exchange, _) = play.begin(request)?;
            if !play.finish(&mut exchange, &script.reply) {
                return None;
            }
            exchanges += 1;
        }
    }
    Some(exchanges)
}

/// Exchanges a second of so many shards.
fn rate(models: &[Arc<Model>], script: &Script) -> Option<f64> {
    let start = Barrier::new(models.len());
    let done: Option<u64> = std::thread::scope(|scope| {
        let start = &start;
        let work = |model| scope.spawn(move || work(model, script, start));
        let threads: Vec<_> = models.iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).sum()
    });
    done.map(|done| done as f64 / ROUND.as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure() -> Option<f64> {
    let model = test_model();
    let script = Script::new(&model);
    let separate = || model.separate().ok().map(Arc::new);
    let models = [separate()?, separate()?];
    let (mut ones, mut ratios) = (Vec::new(), Vec::new());
    rate(&models, &script)?;
    for _ in 0..ROUNDS {
        let (one, two) = (rate(&models[..1], &script)?, rate(&models, &script)?);
        ones.push(one);
        ratios.push(two / one);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let ratio = median(ratios);
    println!(
        "figures: two shards in memory do {ratio:.2} times the work of one ({least:.2} to {most:.2} \
         in {ROUNDS} rounds; one does {:.0} exchanges a second)",
        median(ones)
    );
    Some(ratio)
}

fn main() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        println!("skipped: one core cannot show what two shards do");
        return ExitCode::SUCCESS;
    }
    match measure() {
        Some(ratio) if ratio >= LEAST => ExitCode::SUCCESS,
        Some(_) => {
            println!("two shards share something: less than {LEAST} times the work of one");
            ExitCode::FAILURE
        }
        None => {
            println!("an exchange did not go as scripted");
            ExitCode::FAILURE
        }
    }
}
