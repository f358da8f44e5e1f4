//! A shard's part of exchanges, without sockets: bytes in, bytes out.

use std::hint::black_box;
use std::sync::Arc;

use bytes::BytesMut;
use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::{Context, Desk, Exchange, Gatehouse, Now, Session, Want};
use rollgate_pipeline::http;
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::SessionOptions;
use rollgate_pipeline::render::{ControlText, Model};
use serde_json::{Value, json};

/// A gate with one session.
pub struct Play {
    pub gatehouse: Gatehouse,
    session: Session,
    desk: Desk,
    clock_ms: u64,
}

impl Play {
    /// With this model. Sessions that share a desk are of one shard.
    pub fn new(model: Arc<Model>, desk: Desk) -> Option<Self> {
        let gatehouse = Gatehouse {
            model,
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
        Some(Self { gatehouse, session, desk, clock_ms: 0 })
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Context<'_>) -> T) -> T {
        self.clock_ms += 1;
        let now = Now { wall_ms: 1_700_000_000_000 + self.clock_ms, mono_ms: self.clock_ms };
        let random = u128::from(self.clock_ms) << 64 | 5;
        let (gatehouse, session, desk) = (&self.gatehouse, &mut self.session, &mut self.desk);
        step(&mut Context { gatehouse, session, desk, now, random })
    }

    /// Up to the engine's call.
    pub fn begin(&mut self, request: &[u8]) -> Option<(Exchange, Want)> {
        let mut bytes = BytesMut::from(request);
        let head = http::read_head(&mut bytes).ok()??;
        let route = http::route(&head).ok()?;
        let (mut exchange, _) = self.step(|cx| Exchange::new(&head, &route, cx));
        let want = self.step(|cx| exchange.agent_bytes(cx, &mut bytes));
        Some((exchange, want))
    }

    /// From the engine's reply to the end.
    pub fn finish(&mut self, exchange: &mut Exchange, reply: &[u8]) -> bool {
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

/// A streamed Chat request.
pub fn request(messages: &Value) -> Vec<u8> {
    let body = json!({"model": "m", "messages": messages, "stream": true}).to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// vLLM's reply that samples these ids.
pub fn reply(ids: &[u32]) -> Vec<u8> {
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

/// The ids of a text.
pub fn ids(model: &Model, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    drop(model.tokenizer.encode(text, ControlText::Match, &mut ids));
    ids
}
