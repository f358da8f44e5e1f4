//! What agents are sent.

use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::protocol::ReplyMeta;
use crate::turn::{Finish, Reply, Usage};

fn meta(finish: Finish) -> ReplyMeta {
    ReplyMeta {
        id: "7".to_owned(),
        created_s: 9,
        model: "m".to_owned(),
        finish,
        stop_text: None,
        usage: Usage { prompt_tokens: 1200, completion_tokens: 7, cached_tokens: Some(1000) },
        wire_tools: Default::default(),
        purpose: Default::default(),
        echo: Map::new(),
    }
}

fn reply(reasoning: Option<&str>, content: &str, calls: &[(&str, &str)]) -> Reply {
    let named = |(index, (name, arguments)): (usize, &(&str, &str))| {
        call(&format!("c{index}"), name, arguments)
    };
    Reply {
        reasoning: reasoning.map(str::to_owned),
        content: content.to_owned(),
        tool_calls: calls.iter().enumerate().map(named).collect(),
        ill_formed: false,
        remarks: Vec::new(),
    }
}

fn json_of(reply: &Reply, meta: &ReplyMeta) -> Value {
    serde_json::from_slice(&Dialect::Messages.reply(reply, meta)).unwrap()
}

/// The events of a stream; each goes by its type.
fn events(reply: &Reply, meta: &ReplyMeta) -> Vec<Value> {
    let stream = String::from_utf8(Dialect::Messages.events(reply, meta, false)).unwrap();
    let stream = stream.strip_suffix("\n\n").expect("a blank line at the end");
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], name.strip_prefix("event: ").unwrap());
        data
    };
    stream.split("\n\n").map(event).collect()
}

fn grow(block: &mut Value, key: &str, delta: &Value) {
    let piece = delta[key].as_str().unwrap();
    assert!(!piece.is_empty(), "no delta is empty");
    let old = block[key].as_str().unwrap().to_owned();
    block[key] = (old + piece).into();
}

/// The message that a stream adds up to, as Anthropic's client counts, with the order it relies on.
fn folded(reply: &Reply, meta: &ReplyMeta) -> Value {
    let mut events = events(reply, meta).into_iter();
    let mut message = events.next().unwrap()["message"].take();
    assert_eq!(message["content"], json!([]));
    assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&Value::Null, &Value::Null));
    let mut open: Option<(Value, String)> = None;
    let mut blocks: Vec<Value> = Vec::new();
    for mut event in events.by_ref() {
        let kind = event["type"].as_str().unwrap().to_owned();
        if let Some(index) = event.get("index") {
            assert_eq!(index, blocks.len(), "blocks are numbered in order, one open at a time");
        }
        match kind.as_str() {
            "content_block_start" => {
                assert_eq!(open, None);
                open = Some((event["content_block"].take(), String::new()));
            }
            "content_block_delta" => {
                let (block, json) = open.as_mut().unwrap();
                let delta = &event["delta"];
                match (block["type"].as_str().unwrap(), delta["type"].as_str().unwrap()) {
                    ("text", "text_delta") => grow(block, "text", delta),
                    ("thinking", "thinking_delta") => grow(block, "thinking", delta),
                    ("thinking", "signature_delta") => grow(block, "signature", delta),
                    ("tool_use", "input_json_delta") => {
                        json.push_str(delta["partial_json"].as_str().unwrap());
                    }
                    other => panic!("{other:?}"),
                }
            }
            "content_block_stop" => {
                let (mut block, json) = open.take().unwrap();
                if block["type"] == "tool_use" {
                    assert_eq!(block["input"], json!({}));
                    block["input"] = serde_json::from_str(&json).unwrap();
                }
                blocks.push(block);
            }
            "message_delta" => {
                assert_eq!(open, None);
                for key in ["stop_reason", "stop_sequence"] {
                    message[key] = event["delta"][key].take();
                }
                message["usage"] = event["usage"].take();
                break;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(events.collect::<Vec<_>>(), [json!({"type": "message_stop"})]);
    message["content"] = blocks.into();
    message
}

/// The message, which JSON and stream must agree on.
fn message(reply: &Reply, meta: &ReplyMeta) -> Value {
    let message = json_of(reply, meta);
    assert_eq!(folded(reply, meta), message);
    message
}

#[test]
fn a_message_has_the_known_keys_only() {
    let body = Dialect::Messages.reply(&reply(None, "hi", &[]), &meta(Finish::Stop));
    assert_eq!(
        String::from_utf8(body).unwrap(),
        concat!(
            r#"{"id":"msg_7","type":"message","role":"assistant","model":"m","#,
            r#""content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","#,
            r#""stop_sequence":null,"usage":{"input_tokens":200,"cache_creation_input_tokens":0,"#,
            r#""cache_read_input_tokens":1000,"output_tokens":7}}"#
        )
    );
}

#[test]
fn c01_a_call_ends_with_tool_use() {
    let message = message(&reply(None, "", &[("f", "{}")]), &meta(Finish::Stop));
    assert_eq!(message["stop_reason"], "tool_use");
}

#[test]
fn c02_no_block_is_empty() {
    let content = |reply: &Reply| message(reply, &meta(Finish::Stop))["content"].clone();
    assert_eq!(
        content(&reply(Some(""), "", &[("f", "{}")])),
        json!([{"type": "tool_use", "id": "c0", "name": "f", "input": {}}])
    );
    assert_eq!(content(&reply(None, "", &[])), json!([]));
}

#[test]
fn c03_c04_c05_calls_are_blocks_of_their_own_with_arguments_to_the_letter() {
    let arguments = [r#"{"pattern":"*.rs"}"#, r#"{"z":1.0, "a":123456789012345678901}"#];
    let reply = reply(None, "ok ", &[("Glob", arguments[0]), ("g", arguments[1])]);
    let events = events(&reply, &meta(Finish::Stop));
    let names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let want = [&["message_start"], &block[..], &block, &block, &["message_delta", "message_stop"]];
    assert_eq!(names, want.concat());
    assert_eq!(
        events[4]["content_block"],
        json!({"type": "tool_use", "id": "c0", "name": "Glob", "input": {}})
    );
    for (at, arguments) in [(5, arguments[0]), (8, arguments[1])] {
        let delta = json!({"type": "input_json_delta", "partial_json": arguments});
        assert_eq!(events[at]["delta"], delta);
    }
    let body = Dialect::Messages.reply(&reply, &meta(Finish::Stop));
    let body = String::from_utf8(body).unwrap();
    for arguments in arguments {
        assert!(body.contains(&format!(r#""input":{arguments}}}"#)), "{body}");
    }
}

#[test]
fn c06_c08_c13_thinking_comes_first_and_is_signed() {
    let reply = reply(Some("r"), "t", &[("f", "{}")]);
    let message = message(&reply, &meta(Finish::Stop));
    let want = json!([
        {"type": "thinking", "thinking": "r", "signature": "rg1_7"},
        {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "c0", "name": "f", "input": {}},
    ]);
    assert_eq!(message["content"], want);
    let start = &events(&reply, &meta(Finish::Stop))[0]["message"];
    let usage = json!({"input_tokens": 200, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 1000, "output_tokens": 0});
    assert_eq!((&start["usage"], &start["id"]), (&usage, &json!("msg_7")));
}

/// The frame of each event to the byte.
#[test]
fn c07_events_go_by_their_names() {
    let stream =
        Dialect::Messages.events(&reply(Some("r"), "t", &[("f", "{}")]), &meta(Finish::Stop), true);
    let usage = concat!(
        r#""usage":{"input_tokens":200,"cache_creation_input_tokens":0,"#,
        r#""cache_read_input_tokens":1000,"output_tokens":"#
    );
    let start = concat!(
        r#"{"type":"message_start","message":{"id":"msg_7","type":"message","role":"assistant","#,
        r#""model":"m","content":[],"stop_reason":null,"stop_sequence":null,"#
    );
    let want = [
        format!("event: message_start\ndata: {start}{usage}0}}}}}}"),
        r#"event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"r"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"rg1_7"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"t"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c0","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}"#
            .to_owned(),
        format!(
            "event: message_delta\ndata: {}{usage}7}}}}",
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"#
        ),
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".to_owned(),
    ];
    assert_eq!(String::from_utf8(stream).unwrap(), want.join("\n\n"));
}

#[test]
fn c09_an_answer_cut_short_says_so() {
    for finish in [Finish::Length, Finish::Abort] {
        let cut = Reply {
            ill_formed: true,
            remarks: vec!["call_cut".to_owned()],
            ..reply(None, "a b c d", &[])
        };
        let message = message(&cut, &meta(finish));
        assert_eq!(message["stop_reason"], "max_tokens");
        assert_eq!(message["content"], json!([{"type": "text", "text": "a b c d"}]));
    }
}

#[test]
fn c09_what_is_no_object_is_no_call() {
    for arguments in [r#"{"path": "a"#, "[1]", "null", "\"{}\""] {
        let message = message(&reply(None, "x", &[("f", arguments)]), &meta(Finish::Stop));
        assert_eq!(message["content"], json!([{"type": "text", "text": "x"}]));
        assert_eq!(message["stop_reason"], "end_turn");
    }
}

#[test]
fn c10_a_tool_without_parameters_gets_an_empty_object() {
    for arguments in ["", " ", "{}"] {
        let reply = reply(None, "", &[("now", arguments)]);
        let call = json!({"type": "tool_use", "id": "c0", "name": "now", "input": {}});
        assert_eq!(message(&reply, &meta(Finish::Stop))["content"], json!([call]));
        let deltas = events(&reply, &meta(Finish::Stop)).into_iter();
        let deltas: Vec<_> = deltas.filter(|e| e["type"] == "content_block_delta").collect();
        let delta = json!({"type": "input_json_delta", "partial_json": "{}"});
        assert_eq!(deltas, [json!({"type": "content_block_delta", "index": 0, "delta": delta})]);
    }
}

#[test]
fn c11_the_prompt_is_the_sum_of_the_input_counts() {
    let cases =
        [(Some(1000), 200, 1000), (Some(0), 1200, 0), (None, 1200, 0), (Some(9999), 0, 1200)];
    for (cached_tokens, input, read) in cases {
        let mut meta = meta(Finish::Stop);
        meta.usage.cached_tokens = cached_tokens;
        let want = |output: u32| {
            json!({"input_tokens": input, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": read, "output_tokens": output})
        };
        let reply = reply(None, "x", &[]);
        assert_eq!(message(&reply, &meta)["usage"], want(7));
        assert_eq!(events(&reply, &meta)[0]["message"]["usage"], want(0));
    }
}

#[test]
fn c14_a_stop_text_is_told() {
    let stopped = |stop: Option<&str>, calls: &[(&str, &str)]| {
        let meta = ReplyMeta { stop_text: stop.map(str::to_owned), ..meta(Finish::Stop) };
        let message = message(&reply(None, "x", calls), &meta);
        (message["stop_reason"].clone(), message["stop_sequence"].clone())
    };
    assert_eq!(stopped(Some("STOP"), &[]), (json!("stop_sequence"), json!("STOP")));
    assert_eq!(stopped(None, &[]), (json!("end_turn"), Value::Null));
    // What the agent has to do next goes before what ended the text.
    assert_eq!(stopped(Some("STOP"), &[("f", "{}")]), (json!("tool_use"), Value::Null));
}

proptest! {
    #[test]
    fn any_reply_streams_to_the_same_message_and_comes_back_as_it_was(
        reasoning in prop::option::of("[a-z\u{1f600}\n]{1,20}"),
        content in prop::sample::select(vec![0_usize, 1, 4095, 4096, 4097, 9000]),
        calls in prop::collection::vec(("[a-z]{1,5}", prop::sample::select(vec![
            "{}", "{\"a\":[1, 2.50]}", "{\n\"é\":\"\u{1f600}\"}", "{\"n\":1234567890123456789012}",
        ])), 0..3),
    ) {
        let calls: Vec<_> = calls.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let content = "é\u{1f600}\n".chars().cycle().take(content).collect::<String>();
        let reply = reply(reasoning.as_deref(), &content, &calls);
        let echoed = message(&reply, &meta(Finish::Stop))["content"].clone();
        let back = assistant(echoed);
        prop_assert_eq!(back.len(), 1);
        let back = &back[0];
        prop_assert_eq!(&back.reasoning, &reply.reasoning);
        prop_assert_eq!(&back.content, &reply.content);
        let loose = |calls: &[ToolCall]| -> Vec<(String, String, Value)> {
            let parse = |text: &str| serde_json::from_str(text).unwrap();
            calls.iter().map(|c| (c.id.clone(), c.name.clone(), parse(&c.arguments))).collect()
        };
        prop_assert_eq!(loose(&back.tool_calls), loose(&reply.tool_calls));
    }
}
