//! A data plane with an engine that always says the same.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::Gatehouse;
use rollgate_pipeline::id::ShardCount;
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::render::sample_model::test_model;
use rollgate_pipeline::render::{ControlText, Model};
use rollgate_shards::{DriverChoice, Durability, EngineTarget, Gate, GateConfig};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(test_model()));

/// A gate before such an engine.
pub async fn gate(state_dir: &Path) -> Gate {
    let gatehouse = Gatehouse {
        model: MODEL.clone(),
        engine: EngineKind::Vllm,
        engine_model: "m".into(),
        limits: Limits::default(),
        keepalive_first_ms: 3_000,
        keepalive_next_ms: 5_000,
        node: "n1".into(),
        sessions: Default::default(),
    };
    let engine = EngineTarget { url: format!("http://{}", engine().await), max_in_flight: 64 };
    Gate::start(GateConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        shards: ShardCount(1),
        driver: DriverChoice::Epoll,
        pin: false,
        durability: Durability::Write,
        state_dir: state_dir.to_owned(),
        engines: vec![engine],
        gatehouse: Arc::new(gatehouse),
        idle_evict_ms: 600_000,
    })
    .unwrap()
}

/// Name of the served model.
pub fn model_name() -> String {
    MODEL.name.clone()
}

async fn engine() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    addr
}

async fn serve(stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                if line == "\r\n" {
                    break;
                } else {
                    continue;
                };
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        stream.get_mut().write_all(&reply()).await.ok()?;
    }
}

fn reply() -> Vec<u8> {
    let mut ids = Vec::new();
    MODEL.tokenizer.encode("hi<|im_end|>", ControlText::Match, &mut ids).unwrap();
    let content: Vec<_> =
        ids.iter().map(|id| json!({"token_id": id, "logprob": -0.5, "rank": 1})).collect();
    let body = json!({
        "request_id": "x",
        "choices": [{"index": 0, "finish_reason": "stop", "stop_reason": null,
            "token_ids": ids, "logprobs": {"content": content},
            "weight_versions": [{"version": "w1", "start": 0, "end": ids.len()}]}],
        "usage": {"completion_tokens": ids.len()},
    })
    .to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
