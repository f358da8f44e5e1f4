//! An engine that answers after longer than the agent would wait.

use rollgate_harness::{AgentOutcome, ClaudeCode};
use rollgate_tests::launched::{Plan, Run};
use serde_json::json;

use crate::alone;

/// The engine's delay, longer than the 10 s that the agent waits for the head of an answer.
const DELAY_MS: u64 = 25_000;

/// Claude Code, told to wait for 10 s and to try once.
fn claude_code(keepalive_s: u64) -> Option<Run> {
    let program = alone::program(&ClaudeCode)?;
    let env = [("API_TIMEOUT_MS", "10000"), ("CLAUDE_CODE_MAX_RETRIES", "0")];
    let script = json!({"replies": [{"content": "Hello.", "delay_ms": DELAY_MS}]});
    let plan = Plan { env: &env, keepalive_s, ..Plan::new(&program, script, 131_072) };
    Some(alone::run(&ClaudeCode, &plan))
}

#[test]
fn claude_code_survives_by_keepalives() {
    let Some(run) = claude_code(5) else { return };
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    assert!(run.took.as_millis() > DELAY_MS.into(), "it waited: {:?}", run.took);
    assert_eq!(run.scenes(), ["main"]);
    run.check_training();
}

#[test]
fn without_keepalives_claude_code_gives_up() {
    let Some(run) = claude_code(0) else { return };
    let AgentOutcome::Failed(why) = &run.outcome else { panic!("{:#?}", run.ended) };
    assert!(why.contains("Request timed out"), "{why}");
}
