//! What becomes of a turn once it is matched and rendered: the engine's request, its reply, the
//! parse, the record's frame, the answer. `cargo bench -p rollgate-pipeline --features testing`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rollgate_pipeline::engine::{EngineCall, EngineKind};
use rollgate_pipeline::id_text;
use rollgate_pipeline::parse::parse;
use rollgate_pipeline::protocol::{Dialect, ReplyMeta};
use rollgate_pipeline::render::sample_model::test_model;
use rollgate_pipeline::turn::{Finish, Purpose, Reply, Sampling, ToolCall, Usage};
use serde_json::{Map, Value, json};

const VOCAB: u32 = 151_936;

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|at| at.wrapping_mul(2_654_435_761) % VOCAB).collect()
}

fn logprob(at: usize) -> f64 {
    f64::from(-(at as f32 * 0.618).fract() * 3.7)
}

fn vllm(count: u32) -> Vec<u8> {
    let ids = ids(count);
    let content: Vec<String> = ids
        .iter()
        .enumerate()
        .map(|(at, id)| {
            let lead = format!(r#""token_id":{id},"logprob":{},"rank":1"#, logprob(at));
            format!(r#"{{{lead},"top_logprobs":[{{{lead}}}]}}"#)
        })
        .collect();
    format!(
        r#"{{"request_id":"0123456789abcdef0123456789abcdef","choices":[{{"index":0,"logprobs":{{"content":[{}]}},"finish_reason":"stop","stop_reason":null,"token_ids":{},"routed_experts":null,"sampling_mask":null,"weight_versions":[{{"version":"v1","start":0,"end":{count}}}]}}],"prompt_logprobs":null,"kv_transfer_params":null,"usage":{{"prompt_tokens":11000,"completion_tokens":{count},"total_tokens":11300,"prompt_tokens_details":{{"cached_tokens":10000}}}}}}"#,
        content.join(","), json!(ids),
    ).into_bytes()
}

fn completions(count: u32) -> Vec<u8> {
    let ids = ids(count);
    let tokens: Vec<String> = ids.iter().map(|id| format!("token_id:{id}")).collect();
    let logprobs: Vec<f64> = (0..ids.len()).map(logprob).collect();
    let tops: Vec<Value> =
        tokens.iter().zip(&logprobs).map(|(t, p)| json!({t.as_str(): p})).collect();
    json!({"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"x".repeat(1200),
        "logprobs":{"text_offset": (0..count).collect::<Vec<_>>(), "token_logprobs": logprobs, "tokens": tokens, "top_logprobs": tops},
        "finish_reason":"stop","stop_reason":null,"token_ids":ids,"prompt_logprobs":null,"prompt_token_ids":null}],
        "usage":{"prompt_tokens":11000,"completion_tokens":count,"total_tokens":11300,"prompt_tokens_details":null}}).to_string().into_bytes()
}

fn sglang(count: u32) -> Vec<u8> {
    let ids = ids(count);
    let triples: Vec<Value> =
        ids.iter().enumerate().map(|(at, id)| json!([logprob(at), id, null])).collect();
    json!({"text":"x".repeat(1200),"output_ids":ids,"meta_info":{"id":"r","finish_reason":{"type":"stop","matched":151645},
        "prompt_tokens":11000,"weight_version":"default","total_retractions":0,"input_token_logprobs":[],"output_token_logprobs":triples,
        "completion_tokens":count,"cached_tokens":0,"e2e_latency":1.5}}).to_string().into_bytes()
}

fn engine(c: &mut Criterion) {
    for (name, kind, reply) in [
        ("vllm", EngineKind::Vllm, vllm(300)),
        ("completions", EngineKind::VllmCompletions, completions(300)),
        ("sglang", EngineKind::Sglang, sglang(300)),
    ] {
        assert!(kind.read(200, &reply, VOCAB).is_ok(), "{name}");
        c.bench_function(&format!("read/{name}/{}B", reply.len()), |b| {
            b.iter(|| kind.read(200, black_box(&reply), VOCAB))
        });
    }
    let sampling = Sampling {
        temperature: Some(1.0),
        top_p: Some(1.0),
        top_k: Some(-1),
        min_p: Some(0.0),
        max_tokens: Some(1000),
        ..Sampling::default()
    };
    for count in [11_000, 110_000] {
        let all = ids(count);
        let prompt = [id_text::of(&all)];
        c.bench_function(&format!("id_text/{count}"), |b| b.iter(|| id_text::of(black_box(&all))));
        c.bench_function(&format!("request/{count}"), |b| {
            b.iter(|| {
                EngineKind::Vllm.request(&EngineCall {
                    model: "m",
                    prompt: black_box(&prompt),
                    sampling: &sampling,
                    max_tokens: 1000,
                    request_id: "0123456789abcdef0123456789abcdef",
                })
            })
        });
    }
}

fn reply() -> Reply {
    Reply {
        reasoning: Some("I should look at the file first, then \"edit\" it.\n".repeat(12)),
        content: "Let me see what is in there.".to_owned(),
        tool_calls: vec![ToolCall {
            id: "call_1".into(),
            name: "edit_file".into(),
            arguments: json!({"path": "src/lib.rs", "text": "fn a() {\n    \"b\"\n}\n".repeat(30)})
                .to_string(),
        }],
        ill_formed: false,
        remarks: Vec::new(),
    }
}

fn answers(c: &mut Criterion) {
    let reply = reply();
    let meta = ReplyMeta {
        id: "0123456789abcdef0123456789abcdef".into(),
        created_s: 1_700_000_000,
        model: "m".into(),
        finish: Finish::Stop,
        stop_text: None,
        usage: Usage { prompt_tokens: 11_000, completion_tokens: 300, cached_tokens: Some(10_000) },
        wire_tools: Default::default(),
        purpose: Purpose::Turn,
        echo: Map::new(),
    };
    for dialect in Dialect::ALL {
        c.bench_function(&format!("answer/json/{}", dialect.name()), |b| {
            b.iter(|| dialect.reply(black_box(&reply), &meta))
        });
        c.bench_function(&format!("answer/events/{}", dialect.name()), |b| {
            b.iter(|| dialect.events(black_box(&reply), &meta, true))
        });
    }
}

fn parsing(c: &mut Criterion) {
    let model = test_model();
    let mut out = Vec::new();
    let text = "<think>\nI should look at the file first.\n".to_owned()
        + &"It may be long, so be careful. ".repeat(14)
        + "\n</think>\n\nLet me see.<tool_call>\n{\"name\": \"edit_file\", \"arguments\": {\"path\": \"src/lib.rs\", \"text\": \"fn a() { 1 }\"}}\n</tool_call><|im_end|>";
    drop(model.tokenizer.encode(&text, rollgate_pipeline::render::ControlText::Match, &mut out));
    let tools = [
        json!({"type":"function","function":{"name":"edit_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}),
    ];
    c.bench_function(&format!("parse/{}", out.len()), |b| {
        b.iter(|| parse(&model, &[1, 2, 3], black_box(&out), None, &tools, "seed"))
    });
}

criterion_group!(benches, engine, answers, parsing);
criterion_main!(benches);
