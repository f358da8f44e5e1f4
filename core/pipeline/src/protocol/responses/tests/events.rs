//! Replies as events.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::replies::any_reply;
use super::{X, call, json_of, meta, reply, wire};
use crate::fault::{Fault, FaultKind};
use crate::protocol::{Dialect, ReplyMeta, StreamMeta};
use crate::turn::{Finish, Purpose, Reply, WireForm};

/// The events of a stream; each has its type on its `event:` line, and they are numbered.
fn parsed(stream: &[u8]) -> Vec<Value> {
    let stream = std::str::from_utf8(stream).unwrap();
    let events = stream.strip_suffix("\n\n").unwrap().split("\n\n").enumerate();
    let event = |(number, event): (usize, &str)| {
        let (kind, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], kind.strip_prefix("event: ").unwrap());
        assert_eq!(data["sequence_number"], number);
        data
    };
    events.map(event).collect()
}

fn events_of(reply: &Reply, meta: &ReplyMeta) -> Vec<Value> {
    parsed(&Dialect::Responses.events(reply, meta, false))
}

/// Their types without the common prefix.
fn kinds(events: &[Value]) -> Vec<&str> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.map(|kind| kind.strip_prefix("response.").unwrap()).collect()
}

/// The response that a stream adds up to, as a strict client builds it: items only from their own
/// events, texts only from deltas, each checked against what is said at the end.
fn folded(events: &[Value]) -> Value {
    assert_eq!(kinds(events)[..2], ["created", "in_progress"]);
    let mut items: Vec<Value> = Vec::new();
    let mut open = None;
    for event in &events[2..events.len() - 1] {
        let index = event["output_index"].as_u64().unwrap() as usize;
        let kind = event["type"].as_str().unwrap();
        if kind == "response.output_item.added" {
            assert_eq!((open, index), (None, items.len()), "one item at a time, each once");
            items.push(event["item"].clone());
            open = Some(index);
            continue;
        }
        assert_eq!(open, Some(index), "{kind}");
        let item = &mut items[index];
        if kind == "response.output_item.done" {
            if let Some(status) = event["item"].get("status") {
                item["status"] = status.clone();
            }
            assert_eq!(*item, event["item"]);
            open = None;
            continue;
        }
        assert_eq!(event["item_id"], item["id"]);
        let delta = event["delta"].as_str().unwrap_or_default();
        match kind {
            "response.content_part.added" => {
                item["content"].as_array_mut().unwrap().push(event["part"].clone());
            }
            "response.reasoning_text.delta" | "response.output_text.delta" => {
                push(&mut item["content"][0]["text"], delta);
            }
            "response.reasoning_text.done" | "response.output_text.done" => {
                assert_eq!(item["content"][0]["text"], event["text"]);
            }
            "response.content_part.done" => assert_eq!(item["content"][0], event["part"]),
            "response.function_call_arguments.delta" => push(&mut item["arguments"], delta),
            "response.function_call_arguments.done" => {
                assert_eq!(item["arguments"], event["arguments"]);
                assert_eq!(item["name"], event["name"]);
            }
            "response.custom_tool_call_input.delta" => push(&mut item["input"], delta),
            "response.custom_tool_call_input.done" => assert_eq!(item["input"], event["input"]),
            other => panic!("{other}"),
        }
    }
    assert_eq!(open, None);
    let response = events.last().unwrap()["response"].clone();
    assert_eq!(response["output"], Value::from(items));
    response
}

fn push(text: &mut Value, delta: &str) {
    *text = format!("{}{delta}", text.as_str().unwrap()).into();
}

#[test]
fn d01_a_stream_is_complete() {
    let events = events_of(&reply(None, "hello", &[]), &meta(Finish::Stop));
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), want);
    let begun = &events[0]["response"];
    assert_eq!((&begun["status"], &begun["output"]), (&json!("in_progress"), &json!([])));
    assert_eq!(begun["usage"], Value::Null);
    assert_eq!(events[8]["response"]["usage"]["total_tokens"], 8);
    assert_eq!(
        events[4],
        json!({"type": "response.output_text.delta", "sequence_number": 4,
            "item_id": format!("msg_{X}"), "output_index": 0, "content_index": 0,
            "delta": "hello", "logprobs": []})
    );
}

#[test]
fn d02_items_are_added_before_their_deltas() {
    let events = events_of(&reply(Some("r"), "hello", &[]), &meta(Finish::Stop));
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), want);
    let added = &events[2]["item"];
    assert_eq!((&added["summary"], &added["content"]), (&json!([]), &json!([])));
    assert_eq!((&events[2]["output_index"], &events[8]["output_index"]), (&json!(0), &json!(1)));
    folded(&events);
}

#[test]
fn d03_a_cut_stream_ends_as_incomplete() {
    let (reply, meta) = (reply(Some("r"), "", &[]), meta(Finish::Length));
    let events = events_of(&reply, &meta);
    assert_eq!(kinds(&events).last(), Some(&"incomplete"));
    assert_eq!(events.last().unwrap()["response"], json_of(&reply, &meta));
}

#[test]
fn d05_each_item_is_added_once_and_nothing_foreign_is_among_the_events() {
    let text = "word ".repeat(10_000);
    let calls = [call("a", "f", &text), call("b", "patch", r#"{"input":"text"}"#)];
    let mut meta = meta(Finish::Stop);
    meta.wire_tools = [("patch".to_owned(), wire(None, "patch", WireForm::Custom))].into();
    let reply = reply(None, &text, &calls);
    let stream = Dialect::Responses.events(&reply, &meta, false);
    let events = parsed(&stream);
    let count = |kind| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("response.output_item.added"), 3);
    assert_eq!(count("response.output_item.done"), 3);
    assert!(count("response.output_text.delta") > 10);
    assert_eq!(count("response.custom_tool_call_input.delta"), 1);
    assert_eq!(folded(&events), json_of(&reply, &meta));
}

#[test]
fn d05_a_search_with_line_breaks_is_one_frame() {
    let mut meta = meta(Finish::Stop);
    meta.wire_tools = [("s".to_owned(), wire(None, "tool_search", WireForm::ToolSearch))].into();
    let written = "{\r\n  \"query\": \"a  b\\n\",\n\n  \"at\": [1.50, 18446744073709551616]\n}\n";
    let reply = reply(None, "", &[call("a", "s", written)]);
    let stream = Dialect::Responses.events(&reply, &meta, false);
    assert_eq!(folded(&parsed(&stream)), json_of(&reply, &meta));
    let exact = r#""arguments":{"query":"a  b\n","at":[1.50,18446744073709551616]}"#;
    let stream = String::from_utf8(stream).unwrap();
    assert_eq!(stream.matches(exact).count(), 3, "added, done, completed: {stream}");
    for line in stream.lines() {
        let known = line.is_empty() || line.starts_with("event: ") || line.starts_with("data: ");
        assert!(known, "{line}");
    }
}

#[test]
fn c10_a_call_without_arguments_has_an_empty_object() {
    let reply = reply(None, "", &[call("a", "now", "")]);
    let events = events_of(&reply, &meta(Finish::Stop));
    let told = |kind: &str| {
        let found = events.iter().filter(|event| event["type"] == kind);
        found.cloned().collect::<Vec<_>>()
    };
    let deltas = told("response.function_call_arguments.delta");
    assert_eq!((deltas.len(), &deltas[0]["delta"]), (1, &json!("{}")));
    assert_eq!(told("response.function_call_arguments.done")[0]["arguments"], "{}");
    let response = folded(&events);
    assert_eq!(response["output"][0]["arguments"], "{}");
    assert_eq!(response, json_of(&reply, &meta(Finish::Stop)));
}

#[test]
fn d07_a_stream_that_fails_says_so() {
    let meta = StreamMeta { id: X.to_owned(), created_s: 9, model: "m".to_owned() };
    let fault = Fault::new(FaultKind::EngineDown, "the engine is gone");
    let events = parsed(&Dialect::Responses.error_event(&fault, &meta));
    assert_eq!(kinds(&events), ["created", "in_progress", "failed"]);
    let response = &events[2]["response"];
    assert_eq!(response["status"], "failed");
    assert_eq!(response["error"], json!({"code": "engine_down", "message": "the engine is gone"}));
    assert_eq!(response["id"], events[0]["response"]["id"]);
}

#[test]
fn a_call_of_a_search_needs_no_deltas() {
    let mut meta = meta(Finish::Stop);
    meta.wire_tools = [("s".to_owned(), wire(None, "tool_search", WireForm::ToolSearch))].into();
    let reply = reply(None, "", &[call("a", "s", r#"{"query":"x"}"#)]);
    let events = events_of(&reply, &meta);
    let want = ["created", "in_progress", "output_item.added", "output_item.done", "completed"];
    assert_eq!(kinds(&events), want);
    assert_eq!(folded(&events), json_of(&reply, &meta));
}

proptest! {
    /// A client that adds the events up has what the JSON reply says.
    #[test]
    fn events_add_up_to_the_reply(
        reply in any_reply(),
        finish in prop_oneof![Just(Finish::Stop), Just(Finish::Length), Just(Finish::Abort)],
        compacts in any::<bool>(),
    ) {
        let mut meta = meta(finish);
        if compacts {
            meta.purpose = Purpose::Compaction;
        }
        prop_assert_eq!(folded(&events_of(&reply, &meta)), json_of(&reply, &meta));
    }
}
