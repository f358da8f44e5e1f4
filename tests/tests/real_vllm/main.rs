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

use pieces::{TOOL_CALL, TOOL_CALL_END};

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
    constrained(&stand.gate);
}

/// A call and a stop by the engine's own structured outputs, handed through `sampling.extra`. Their
/// log-probabilities are those under the grammar, so nothing is scored again here.
fn constrained(gate: &Gate) {
    let call = r#"<tool_call>\n\{"name": "bash", "arguments": \{"command": "[a-z]{1,8}"\}\}\n</tool_call>"#;
    let session = gate.create(&json!({"sampling": {
        "max_tokens": MAX_TOKENS,
        "extra": {
            "structured_outputs": {"regex": call},
            // The grammar also allows the markers spelled with ordinary tokens.
            "logit_bias": {TOOL_CALL.to_string(): 100, TOOL_CALL_END.to_string(): 100},
        },
    }}));
    let mut chat = Chat::new(&session, &[("user", "List the files.")]);
    let answer = chat.turn();
    assert_eq!((answer.finish.as_str(), answer.calls().len()), ("tool_calls", 1), "{answer:?}");
    let sample = samples::parse(&gate.samples(&session)).remove(0);
    assert_eq!(sample.turns[0].finish_reason, "stop");
    assert!(sample.turns[0].sampling.extra.contains_key("structured_outputs"));
    assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
}
