//! Counting tokens, many at once.

use rollgate_pipeline::id::SessionKey;
use serde_json::json;

use crate::agent::Agent;
use crate::engine::{Act, Engine};
use crate::node::{Setting, block_on, create, model, on_both, state_dir, total};

fn count(key: &SessionKey, text: &str) -> Vec<u8> {
    let body = json!({"model": "any", "messages": [{"role": "user", "content": text}]}).to_string();
    let head = format!(
        "POST /v1/messages/count_tokens?beta=true HTTP/1.1\r\nhost: g\r\nx-api-key: {}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
        key.expose(),
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

#[test]
fn a18_twenty_five_counts_at_once() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agents: Vec<Agent> = (0..25).map(|_| Agent::connect(gate.agents_addr())).collect();
        for (at, agent) in agents.iter_mut().enumerate() {
            agent.send(&count(&made.key, &"x".repeat(at + 1)));
        }
        let counts = agents.iter_mut().map(|agent| {
            let reply = agent.reply();
            assert_eq!(reply.status, 200, "{reply:?}");
            reply.json()["input_tokens"].as_u64().unwrap()
        });
        let counts: Vec<u64> = counts.collect();
        for (at, counted) in counts.iter().enumerate() {
            assert_eq!(*counted, counts[0] + at as u64, "each its own: {counts:?}");
        }
        assert!(engine.calls().is_empty(), "no engine is asked");
        assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 0);
        assert_eq!(total(&gate, |s| s.counted), 25);
        block_on(gate.close(&made.session_id)).unwrap();
        let refused = {
            agents[0].send(&count(&made.key, "x"));
            agents[0].reply()
        };
        let kind = &refused.json()["error"]["type"];
        assert_eq!((refused.status, kind), (403, &json!("permission_error")));
    });
}
