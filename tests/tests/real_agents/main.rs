//! The real agents, as their registries have them, through `rollgate run` against the scripted engine.
//!
//! `cargo test --test real_agents -- --nocapture` prints one table: what each agent called, whether each
//! call got the scene it should have, and whether every sampled token is trained exactly once. Bundles
//! that are missing are installed into `${ROLLGATE_CACHE:-~/.cache/rollgate}/agents` first.
//! `ROLLGATE_REAL_AGENTS=mini-swe-agent,codex` takes only the cases whose `agent/name` begins so;
//! `ROLLGATE_REAL_AGENTS_KEEP=DIR` keeps what each run leaves behind in `DIR/AGENT/NAME`.
//!
//! A case is a [`Case`](case::Case) in a file of its agent; `CASES` lists the files. What no case can
//! say is in tests of their own ([`alone`]) with the same bundles, chosen by their names. No more than
//! [`AT_ONCE`](slots::AT_ONCE) agents run at once in all.

mod alone;
mod bundles;
mod case;
mod judge;
mod play;
mod seen;
mod slots;
mod table;

mod anthropic_loop;
mod claude_code;
mod codex;
mod hermes;
mod mini_swe_agent;
mod openclaw;
mod opencode;
mod pi;
mod qwen_code;
mod slow_engine;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::Case;
use table::Row;

/// The cases of each agent.
const CASES: &[fn() -> Vec<Case>] = &[
    anthropic_loop::cases,
    claude_code::cases,
    codex::cases,
    hermes::cases,
    mini_swe_agent::cases,
    openclaw::cases,
    opencode::cases,
    pi::cases,
    qwen_code::cases,
];

/// Whether the real agents are to be left out.
fn skipped() -> bool {
    let skipped = std::env::var_os("ROLLGATE_SKIP_REAL").is_some_and(|value| value == "1");
    if skipped {
        eprintln!("left out, since ROLLGATE_SKIP_REAL=1: the real agents");
    }
    skipped
}

fn asked_for(case: &Case) -> bool {
    let Ok(asked) = std::env::var("ROLLGATE_REAL_AGENTS") else { return true };
    let label = case.label();
    asked.split(',').map(str::trim).any(|start| !start.is_empty() && label.starts_with(start))
}

#[test]
fn every_call_of_every_agent_has_its_scene_and_every_token_is_trained_once() {
    if skipped() {
        return;
    }
    let cases: Vec<Case> = CASES.iter().flat_map(|cases| cases()).filter(asked_for).collect();
    assert!(!cases.is_empty(), "no case begins with what ROLLGATE_REAL_AGENTS says");
    let bundles = bundles::install(&cases);
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<(usize, Row)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..slots::AT_ONCE {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { return };
                    let _slot = slots::take();
                    let row = play::play(case, &bundles);
                    rows.lock().expect("no thread panicked with it").push((at, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no thread panicked with it");
    rows.sort_by_key(|(at, _)| *at);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    println!("{}", table::table(&rows));
    let problems: Vec<String> = rows.iter().flat_map(Row::told).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
