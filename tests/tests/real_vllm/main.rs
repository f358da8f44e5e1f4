//! Conversations with a real vLLM: every id is the engine's, every cached block is earned, and the
//! engine itself confirms the log-probabilities.

mod exact;
mod pieces;
mod six;
mod twelve;

use rollgate_tests::chat::Chat;
use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::proxy::{Call, Proxy};
use rollgate_tests::real::Vllm;
use rollgate_tests::samples;
use serde_json::json;

use pieces::{THINK, THINK_END, TOOL_CALL, TOOL_CALL_END};

const MAX_TOKENS: usize = 64;
const GENERATE: &str = "/inference/v1/generate";

/// A real engine, a proxy that keeps what is said, and the gate before them.
pub struct Stand {
    directory: tempfile::TempDir,
    engine: Vllm,
    gate: Gate,
    proxy: Proxy,
    seen: std::cell::Cell<usize>,
}

impl Stand {
    /// The engine's calls since this was last asked. The gateway also asks which routes there are;
    /// that samples nothing and is refused.
    pub fn calls(&self) -> Vec<Call> {
        let answered = |call: &Call| call.status == 200;
        let all: Vec<_> = self.proxy.calls(GENERATE).into_iter().filter(answered).collect();
        all[self.seen.replace(all.len())..].to_vec()
    }
}

#[test]
fn conversations_on_real_vllm() {
    let directory = tempfile::tempdir().unwrap();
    let Some(engine) = Vllm::start(directory.path()) else { return };
    let proxy = Proxy::start(&engine.url);
    let mut settings = Settings::new(&proxy.url);
    settings.model.clone_from(&engine.model);
    let gate = Gate::start(directory.path(), &settings);
    let stand = Stand { directory, engine, gate, proxy, seen: 0.into() };
    six::run(&stand);
    twelve::run(&stand);
    constrained(&stand);
}

/// Closed thinking, a call and a stop by the engine's own structured outputs, handed through
/// `sampling.extra`, turn after turn. Log-probabilities are those under the grammar, so nothing is
/// scored again here; ids, prompts and cache are held against the engine as everywhere.
fn constrained(stand: &Stand) {
    let answer = r#"<think>\n[a-z]{1,8}\n</think>\n\n<tool_call>\n\{"name": "bash", "arguments": \{"command": "[a-z]{1,8}"\}\}\n</tool_call>"#;
    let bias = |id: u32| (id.to_string(), json!(100));
    let session = stand.gate.create(&json!({"sampling": {
        "max_tokens": MAX_TOKENS,
        "extra": {
            "structured_outputs": {"regex": answer},
            // The grammar also allows the markers spelled with ordinary tokens.
            "logit_bias": serde_json::Map::from_iter(
                [THINK, THINK_END, TOOL_CALL, TOOL_CALL_END].map(bias),
            ),
        },
    }}));
    let mut chat = Chat::new(&session, &[("user", "List the files.")]);
    for turn in 0..3 {
        let answer = chat.turn();
        assert_eq!((answer.finish.as_str(), answer.calls().len()), ("tool_calls", 1), "{answer:?}");
        assert!(answer.message["reasoning_content"].is_string(), "{answer:?}");
        chat.results(&answer, &format!("result {turn}: {}", "a line. ".repeat(20)));
    }
    let calls = stand.calls();
    let sample = samples::parse(&stand.gate.samples(&session)).remove(0);
    exact::ids_are_the_engines(&sample, &calls);
    assert!(sample.turns.iter().all(|turn| turn.finish_reason == "stop"));
    assert!(sample.turns[0].sampling.extra.contains_key("structured_outputs"));
    assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
}
