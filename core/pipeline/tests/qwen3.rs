//! The real Qwen3 tokenizer and template, where a directory with them is at hand.
//!
//! `ROLLGATE_QWEN3_DIR` names a directory with `tokenizer.json` and `tokenizer_config.json`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests read the model's files and say what they skip"
)]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use rollgate_pipeline::render::{ControlText, Model, ModelFiles, PriorTail};
use rollgate_pipeline::turn::{Message, Role, ToolCall};
use serde_json::{Map, Value};

const CLOSED: PriorTail = PriorTail { last: Some(151_645), reasoning_open: false };

/// The directory, or `None` after saying why the test does nothing.
fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("ROLLGATE_QWEN3_DIR").map(PathBuf::from);
    if directory.is_none() {
        println!("skipped: ROLLGATE_QWEN3_DIR names no directory with Qwen3's tokenizer");
    }
    directory
}

fn files(directory: &std::path::Path) -> ModelFiles {
    let read = |name: &str| std::fs::read(directory.join(name));
    ModelFiles {
        name: "qwen3".to_owned(),
        tokenizer: read("tokenizer.json").unwrap(),
        tokenizer_config: read("tokenizer_config.json").unwrap(),
        template: None,
        config: Some(br#"{"vocab_size": 151936, "max_position_embeddings": 40960}"#.to_vec()),
        generation_config: None,
        max_context: None,
        inject_engine: false,
    }
}

fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    MODEL
        .get_or_init(|| {
            let files = files(&directory()?);
            let start = Instant::now();
            let model = Model::load(files).unwrap();
            println!("loaded in {:?}", start.elapsed());
            Some(model)
        })
        .as_ref()
}

fn text(model: &Model, ids: &[u32]) -> String {
    let mut bytes = Vec::new();
    model.detokenize(ids, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

fn message(stored: &Value) -> Message {
    let role = serde_json::from_value(stored["role"].clone()).unwrap();
    let mut message = Message::text(role, stored["content"].as_str().unwrap());
    message.reasoning = stored["reasoning_content"].as_str().map(str::to_owned);
    message.tool_call_id = stored["tool_call_id"].as_str().map(str::to_owned);
    for call in stored["tool_calls"].as_array().into_iter().flatten() {
        let arguments = &call["function"]["arguments"];
        message.tool_calls.push(ToolCall {
            id: call["id"].as_str().unwrap().to_owned(),
            name: call["function"]["name"].as_str().unwrap().to_owned(),
            arguments: arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned),
        });
    }
    message
}

#[test]
fn markers_are_the_known_ones() {
    let Some(model) = model() else { return };
    assert_eq!(model.markers.close, 151_645);
    assert_eq!(
        (model.markers.think_open, model.markers.think_close),
        (Some(151_667), Some(151_668))
    );
    assert_eq!((model.markers.call_open, model.markers.call_close), (Some(151_657), Some(151_658)));
    assert_eq!((model.vocab_size, model.tokenizer.size()), (151_936, 151_669));
}

#[test]
fn stored_renders_of_transformers_are_met() {
    let Some(model) = model() else { return };
    let stored: Value = serde_json::from_str(include_str!("fixtures/renders.json")).unwrap();
    for case in stored["cases"].as_array().unwrap() {
        let messages: Vec<Message> =
            case["messages"].as_array().unwrap().iter().map(message).collect();
        let tools = case["tools"].as_array().unwrap();
        let ids = model.first(&messages, tools, case["kwargs"].as_object().unwrap()).unwrap();
        assert_eq!(text(model, &ids), case["qwen3"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn h06_control_text_is_plain() {
    let Some(model) = model() else { return };
    let mut ids = Vec::new();
    model.tokenizer.encode("<|im_end|>", ControlText::Plain, &mut ids).unwrap();
    assert_eq!(ids, [27, 91, 318, 6213, 91, 29]);
    let prompt = model.first(&[Message::text(Role::User, "<|im_end|>")], &[], &Map::new()).unwrap();
    assert_eq!(
        prompt,
        [151_644, 872, 198, 27, 91, 318, 6213, 91, 29, 151_645, 198, 151_644, 77_091, 198]
    );
    for marker in ["<think>", "</tool_call>"] {
        let mut ids = Vec::new();
        model.tokenizer.encode(marker, ControlText::Plain, &mut ids).unwrap();
        assert!(ids.len() > 1 && ids.iter().all(|id| *id < 151_643), "{marker} {ids:?}");
    }
}

#[test]
fn h08_a_stretch_begins_with_the_separator() {
    let Some(model) = model() else { return };
    let ids = model.stretch(CLOSED, &[Message::text(Role::User, "hi")], &[], &Map::new()).unwrap();
    assert_eq!(ids[..3], [198, 151_644, 872]);
    let open = PriorTail { last: None, reasoning_open: true };
    let ids = model.stretch(open, &[], &[], &Map::new()).unwrap();
    assert_eq!(ids[..5], [198, 151_668, 271, 151_645, 198]);
}

#[test]
fn h07_characters_split_over_tokens_join_up() {
    let Some(model) = model() else { return };
    let sample = "삼겹살 😀 🫠🪿 字";
    let mut ids = Vec::new();
    model.tokenizer.encode(sample, ControlText::Plain, &mut ids).unwrap();
    let mut bytes = Vec::new();
    ids.iter().for_each(|id| model.detokenize(&[*id], &mut bytes));
    assert_eq!(String::from_utf8(bytes).unwrap(), sample);
}

#[cfg(feature = "oracle")]
#[test]
fn the_serving_tokenizer_agrees_with_the_reference() {
    use rollgate_pipeline::render::{FastTokenizer, OracleTokenizer, check_against};
    let Some(directory) = directory() else { return };
    let raw = std::fs::read(directory.join("tokenizer.json")).unwrap();
    let served = FastTokenizer::load(&raw).unwrap();
    let reference = OracleTokenizer::load(&raw).unwrap();
    check_against(&served, &reference).unwrap();
}
