//! Many `scripted` agents at once on this machine, from one `rollgate run` with its embedded engine.
//!
//! `ROLLGATE_AGENTS` sets how many; all of them live at the same time.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rollgate_tests::process::Process;
use rollgate_tests::{program, sandboxes};
use serde_json::Value;

/// Milliseconds that each agent thinks before each call, for each agent that there is: so the first
/// still lives when the last is started.
const THINK_MS_EACH: u64 = 30;

/// Where Python itself lies: a wrapper around it may cost more than all else that an agent does.
fn path() -> String {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let asked = asked.expect("the demonstration's agent runs python3");
    let program = String::from_utf8(asked.stdout).unwrap();
    let directory = Path::new(program.trim()).parent().expect("a path");
    format!("{}:/usr/bin:/bin", directory.display())
}

#[test]
fn all_agents_live_at_once_and_all_are_done() {
    let agents: u64 = std::env::var("ROLLGATE_AGENTS").map_or(60, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (at, tmp) = (directory.path(), directory.path().join("tmp"));
    std::fs::create_dir(&tmp).unwrap();
    // On a machine that others use too, an engine may not be let run for longer than it usually may.
    std::fs::write(at.join("node.toml"), "[limits]\nconnect_ms = 120000\n").unwrap();
    let think = (agents * THINK_MS_EACH).to_string();
    let mut command = program::command(at);
    command.env("TMPDIR", &tmp).env("PATH", path());
    command.args(["run", "--demo", "--n", &agents.to_string(), "--concurrency"]);
    command.args([&agents.to_string(), "--agent-arg=--think-ms", "--agent-arg"]);
    command.args([&think, "-o", "out", "--json", "--log", "error", "-c", "node.toml"]);
    let begun = Instant::now();
    let mut process = Process::start("run", command, at);
    let most = Duration::from_secs(300 + agents);
    let peak = std::cell::Cell::new(0);
    let line = process.wait_for(most, |process| {
        std::thread::sleep(Duration::from_millis(200));
        peak.set(peak.get().max(sandboxes::left(&tmp).len() as u64));
        process.first_line()
    });
    let code = process.wait();
    let summary: Value = serde_json::from_str(&line).unwrap();
    let turns = summary["turns"].as_u64().unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "figures: {agents} agents, {} at once at most: {turns} turns in {seconds:.1} s, {:.1} a \
         second; {} tries were made again; outcomes {}",
        peak.get(),
        turns as f64 / seconds,
        summary["retries"],
        summary["outcomes"]
    );
    assert_eq!(code, Some(0), "{summary:#}");
    assert_eq!(summary["outcomes"]["done"], agents, "{summary:#}");
    assert!(peak.get() * 10 >= agents * 9, "{} of {agents} lived at once", peak.get());
    assert!(sandboxes::left(&tmp).is_empty() && sandboxes::processes(&tmp).is_empty());
    let (code, report) = program::verify(at, &["out"]);
    assert_eq!(code, Some(0), "{}", report["summary"]);
}
