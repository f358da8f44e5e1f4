//! What text costs on its way to ids: stretches, first turns, whole renders. Fresh text every time.
//!
//! `ROLLGATE_QWEN3_DIR` names a directory with Qwen3's `tokenizer.json` and `tokenizer_config.json`;
//! without it nothing is measured.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench reads the model's files, and says what it skips"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rollgate_pipeline::render::{ControlText, Heads, Model, ModelFiles, PriorTail};
use rollgate_pipeline::turn::{Message, Role, Tool, ToolCall, Tools};
use serde_json::{Map, Value, json};

fn model() -> Option<Model> {
    let Some(directory) = std::env::var_os("ROLLGATE_QWEN3_DIR").map(PathBuf::from) else {
        println!("skipped: ROLLGATE_QWEN3_DIR names no directory with Qwen3's tokenizer");
        return None;
    };
    Some(Model::load(files(&directory)).expect("Qwen3 is served"))
}

fn files(directory: &Path) -> ModelFiles {
    let read = |name: &str| std::fs::read(directory.join(name)).expect("the file is there");
    ModelFiles {
        name: "qwen3".to_owned(),
        tokenizer: read("tokenizer.json"),
        tokenizer_config: read("tokenizer_config.json"),
        max_context: Some(40_960),
        ..ModelFiles::default()
    }
}

/// Text as tools print it, never the same twice: words, numbers, paths, brackets.
struct Fresh(u64);

impl Fresh {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn text(&mut self, bytes: usize) -> String {
        const WORDS: [&str; 24] = [
            "the", "error", "return", "fn", "src", "main", "value", "of", "for", "test", "is",
            "expected", "line", "in", "let", "self", "assert", "index", "not", "result", "found",
            "None", "import", "module",
        ];
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let bits = self.next();
            match bits % 16 {
                0 => text.push_str(&format!("{}:{} ", bits >> 40, bits >> 52)),
                1 => text.push_str(&format!("{:x}_", bits >> 32)),
                2 => text.push_str("\n    "),
                3 => text.push_str("/usr/lib/"),
                4 => text.push_str("(); "),
                _ => {
                    text.push_str(WORDS[(bits >> 8) as usize % WORDS.len()]);
                    text.push(' ');
                }
            }
        }
        text.truncate(bytes);
        text
    }
}

fn tools(fresh: &mut Fresh) -> Vec<Tool> {
    let tool = |at: usize| {
        json!({"type": "function", "function": {
            "name": format!("tool_{at}"), "description": fresh.text(1_500),
            "parameters": {"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string", "description": "Where."},
                "limit": {"type": "integer", "description": "How much, at most."},
            }},
        }})
    };
    (0..16).map(tool).collect()
}

fn kwargs() -> Map<String, Value> {
    Map::from_iter([("now".to_owned(), Value::from(1_700_000_000_u64))])
}

fn stretches(c: &mut Criterion) {
    let Some(model) = model() else { return };
    let mut fresh = Fresh(7);
    let tools = tools(&mut fresh);
    let tail = PriorTail { last: Some(model.markers.close), reasoning_open: false };
    let call = ToolCall {
        id: "call_1".to_owned(),
        name: "tool_1".to_owned(),
        arguments: r#"{"path": "src/lib.rs"}"#.to_owned(),
    };
    let kwargs = kwargs();
    for bytes in [2_048, 16_384] {
        let result = |fresh: &mut Fresh| {
            let mut result = Message::text(Role::Tool, fresh.text(bytes));
            result.tool_call_id = Some("call_1".to_owned());
            result
        };
        c.bench_function(&format!("stretch/{bytes}"), |b| {
            b.iter_batched(
                || [result(&mut fresh)],
                |new| {
                    let calls = std::slice::from_ref(&call);
                    black_box(model.stretch_after(tail, calls, &new, &tools, &kwargs).is_ok());
                    new
                },
                BatchSize::SmallInput,
            );
        });
        c.bench_function(&format!("encode/{bytes}"), |b| {
            b.iter_batched(
                || fresh.text(bytes),
                |text| {
                    let mut ids = Vec::new();
                    black_box(model.tokenizer.encode(&text, ControlText::Match, &mut ids).is_ok());
                    (text, ids)
                },
                BatchSize::SmallInput,
            );
        });
    }
}

fn whole(c: &mut Criterion) {
    let Some(model) = model() else { return };
    let mut fresh = Fresh(11);
    let tools = tools(&mut fresh);
    let system = Message::text(Role::System, fresh.text(46_000 - 27_000));
    let kwargs = kwargs();
    let (tools, mut heads) = (Tools::from(tools), Heads::default());
    c.bench_function("first/46_of_50_kb_known", |b| {
        b.iter_batched(
            || [system.clone(), Message::text(Role::User, fresh.text(4_096))],
            |messages| {
                let draft = model.draft_first(&mut heads, &messages, &tools, &kwargs);
                black_box(draft.is_ok_and(|draft| draft.encode(&model).is_ok()));
                messages
            },
            BatchSize::SmallInput,
        );
    });
    c.bench_function("first/50_kb", |b| {
        b.iter_batched(
            || {
                let system = Message::text(Role::System, fresh.text(19_000));
                [system, Message::text(Role::User, fresh.text(4_096))]
            },
            |messages| {
                black_box(model.first(&messages, &tools, &kwargs).is_ok());
                messages
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, stretches, whole);
criterion_main!(benches);
