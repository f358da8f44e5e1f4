//! The two halves of an exchange around its engine call. `cargo bench -p rollgate-pipeline --features
//! testing --bench turn`.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::{Context, Desk, Exchange, Gatehouse, Now, Session, Want};
use rollgate_pipeline::http;
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::SessionOptions;
use rollgate_pipeline::render::ControlText;
use rollgate_pipeline::render::sample_model::test_model;
use serde_json::{Value, json};

const ANSWER: &str = "<think>\nI should look at the file first.\n</think>\n\nLet me see.<tool_call>\n\
    {\"name\": \"edit_file\", \"arguments\": {\"path\": \"src/lib.rs\", \"text\": \"fn a() { 1 }\"}}\n\
    </tool_call>";

struct Play {
    gatehouse: Gatehouse,
    session: Session,
    desk: Desk,
    clock_ms: u64,
}

impl Play {
    fn new() -> Option<Self> {
        let gatehouse = Gatehouse {
            model: Arc::new(test_model()),
            engine: EngineKind::Vllm,
            engine_model: "m".into(),
            limits: Limits::default(),
            keepalive_first_ms: 3_000,
            keepalive_next_ms: 5_000,
            node: "n1".into(),
            sessions: Default::default(),
        };
        let id = SessionId::new("n1", SessionHash(1));
        let session = Session::open(gatehouse.open(id, SessionOptions::default(), 0)).ok()?;
        Some(Self { gatehouse, session, desk: Desk::default(), clock_ms: 0 })
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Context<'_>) -> T) -> T {
        self.clock_ms += 1;
        let now = Now { wall_ms: 1_700_000_000_000 + self.clock_ms, mono_ms: self.clock_ms };
        let random = u128::from(self.clock_ms) << 64 | 5;
        let (gatehouse, session, desk) = (&self.gatehouse, &mut self.session, &mut self.desk);
        step(&mut Context { gatehouse, session, desk, now, random })
    }

    /// Up to the engine's call.
    fn begin(&mut self, request: &[u8]) -> Option<(Exchange, Want)> {
        let mut bytes = BytesMut::from(request);
        let head = http::read_head(&mut bytes).ok()??;
        let route = http::route(&head).ok()?;
        let (mut exchange, _) = self.step(|cx| Exchange::new(&head, &route, cx));
        let want = self.step(|cx| exchange.agent_bytes(cx, &mut bytes));
        Some((exchange, want))
    }

    /// From the engine's reply to the end.
    fn finish(&mut self, exchange: &mut Exchange, reply: &[u8]) -> bool {
        let mut bytes = BytesMut::from(reply);
        let Want::Durable(frame) = self.step(|cx| exchange.engine_bytes(cx, &mut bytes, false))
        else {
            return false;
        };
        black_box(frame);
        let Want::Agent(answer) = self.step(|cx| exchange.durable(cx)) else { return false };
        black_box(answer);
        matches!(self.step(|cx| exchange.written(cx)), Want::Done { .. })
    }
}

fn request(messages: &Value) -> Vec<u8> {
    let body = json!({"model": "m", "messages": messages, "stream": true}).to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn reply(ids: &[u32]) -> Vec<u8> {
    let entry = |id| {
        let lead = format!(r#""token_id":{id},"logprob":-0.12345679104328156,"rank":1"#);
        format!(r#"{{{lead},"top_logprobs":[{{{lead}}}]}}"#)
    };
    let content: Vec<String> = ids.iter().map(entry).collect();
    let body = format!(
        r#"{{"request_id":"r","choices":[{{"index":0,"token_ids":{},"logprobs":{{"content":[{}]}},"finish_reason":"stop","stop_reason":null,"weight_versions":[{{"version":"w1","start":0,"end":{}}}]}}]}}"#,
        json!(ids),
        content.join(","),
        ids.len()
    );
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn halves(c: &mut Criterion) {
    let Some(play) = Play::new() else { return };
    let play = RefCell::new(play);
    let mut ids = Vec::new();
    let text = format!("{ANSWER}<|im_end|>");
    drop(play.borrow().gatehouse.model.tokenizer.encode(&text, ControlText::Match, &mut ids));
    let answer = reply(&ids);
    let call = json!({"role": "assistant", "reasoning_content": "I should look at the file first.", "content": "Let me see.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "edit_file", "arguments": "{\"path\": \"src/lib.rs\", \"text\": \"fn a() { 1 }\"}"}}]});
    let mut messages = vec![json!({"role": "user", "content": "long ".repeat(2_000)})];
    for turn in 0..20 {
        let Some((mut exchange, _)) = play.borrow_mut().begin(&request(&json!(messages))) else {
            return;
        };
        assert!(play.borrow_mut().finish(&mut exchange, &answer), "turn {turn}");
        messages.push(call.clone());
        messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": "ok ".repeat(30)}));
    }
    let last = request(&json!(messages));
    c.bench_function(&format!("exchange/reply of {} ids", ids.len()), |b| {
        b.iter_batched(
            || play.borrow_mut().begin(&last),
            |begun| {
                begun.is_some_and(|(mut exchange, _)| {
                    play.borrow_mut().finish(&mut exchange, &answer)
                })
            },
            BatchSize::PerIteration,
        );
    });
    c.bench_function(&format!("exchange/request of {} bytes", last.len()), |b| {
        b.iter_with_large_drop(|| play.borrow_mut().begin(&last));
    });
}

criterion_group!(benches, halves);
criterion_main!(benches);
