//! What agents are sent.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::protocol::{Dialect, ReplyMeta};
use crate::turn::{Finish, Reply, ToolCall, Usage};

fn meta(finish: Finish) -> ReplyMeta {
    ReplyMeta {
        id: "7".to_owned(),
        created_s: 9,
        model: "m".to_owned(),
        finish,
        stop_text: None,
        usage: Usage { prompt_tokens: 5, completion_tokens: 3, cached_tokens: Some(4) },
        wire_tools: Default::default(),
        purpose: Default::default(),
        echo: Map::new(),
    }
}

fn reply(reasoning: Option<&str>, content: &str, calls: &[(&str, &str)]) -> Reply {
    let call = |(index, (name, arguments)): (usize, &(&str, &str))| ToolCall {
        id: format!("c{index}"),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    };
    Reply {
        reasoning: reasoning.map(str::to_owned),
        content: content.to_owned(),
        tool_calls: calls.iter().enumerate().map(call).collect(),
        ill_formed: false,
        remarks: Vec::new(),
    }
}

fn json_of(reply: &Reply, finish: Finish) -> String {
    String::from_utf8(Dialect::Chat.reply(reply, &meta(finish))).unwrap()
}

fn stream_of(reply: &Reply, usage: bool) -> String {
    String::from_utf8(Dialect::Chat.events(reply, &meta(Finish::Stop), usage)).unwrap()
}

/// The chunks of a stream, which must end with the end mark.
fn chunks(stream: &str) -> Vec<Value> {
    let events = stream.strip_suffix("data: [DONE]\n\n").expect("an end mark");
    let json = |event: &str| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    events.split_terminator("\n\n").map(json).collect()
}

/// Folds a delta into what came before, as OpenAI's client does: texts are joined, but for a
/// `type`; objects are merged; list items are merged by their `index`.
fn fold(into: &mut Map<String, Value>, delta: &Map<String, Value>) {
    for (key, new) in delta {
        match (into.get_mut(key), new) {
            (None | Some(Value::Null), _) => {
                into.insert(key.clone(), new.clone());
            }
            (Some(Value::String(old)), Value::String(new)) if key != "type" => old.push_str(new),
            (Some(Value::Object(old)), Value::Object(new)) => fold(old, new),
            (Some(Value::Array(old)), Value::Array(new)) => {
                for item in new {
                    let index = item["index"].as_u64().unwrap() as usize;
                    match old.get_mut(index).and_then(Value::as_object_mut) {
                        Some(old) => fold(old, item.as_object().unwrap()),
                        None => old.insert(index, item.clone()),
                    }
                }
            }
            (Some(old), new) if key == "index" || key == "type" => assert_eq!(old, new),
            (_, Value::Null) => {}
            (old, new) => panic!("{key}: {old:?} and {new}"),
        }
    }
}

/// The completion that a stream adds up to.
fn folded(stream: &str) -> Value {
    let (mut message, mut finish, mut usage) = (Map::new(), Value::Null, Value::Null);
    let chunks = chunks(stream);
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        for key in ["id", "created", "model"] {
            assert_eq!(chunk[key], chunks[0][key], "one {key} for the whole stream");
        }
        let Some(choice) = chunk["choices"].get(0) else {
            usage = chunk["usage"].clone();
            continue;
        };
        assert_eq!(finish, Value::Null, "nothing follows the finish reason");
        finish = choice["finish_reason"].clone();
        fold(&mut message, choice["delta"].as_object().unwrap());
    }
    for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        call.as_object_mut().unwrap().remove("index");
    }
    json!({
        "id": chunks[0]["id"], "object": "chat.completion", "created": chunks[0]["created"],
        "model": chunks[0]["model"],
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": usage,
    })
}

#[test]
fn e06_a_completion_has_the_known_keys_only() {
    assert_eq!(
        json_of(&reply(None, "hi", &[]), Finish::Stop),
        concat!(
            r#"{"id":"chatcmpl-7","object":"chat.completion","created":9,"model":"m","#,
            r#""choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"#,
            r#""logprobs":null,"finish_reason":"stop"}],"#,
            r#""usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"#,
            r#""prompt_tokens_details":{"cached_tokens":4}}}"#
        )
    );
    let with_call = json_of(&reply(Some("r"), "", &[("f", "{}")]), Finish::Stop);
    let message = concat!(
        r#""message":{"role":"assistant","content":null,"reasoning_content":"r","#,
        r#""tool_calls":[{"id":"c0","type":"function","#,
        r#""function":{"name":"f","arguments":"{}"}}]},"#,
        r#""logprobs":null,"finish_reason":"tool_calls"}"#
    );
    assert!(with_call.contains(message), "{with_call}");
    assert!(json_of(&reply(None, "", &[]), Finish::Stop).contains(r#""content":"""#));
}

#[test]
fn finish_reasons_are_openai_s() {
    let finish = |calls: &[(&str, &str)], finish| {
        let body: Value = serde_json::from_str(&json_of(&reply(None, "", calls), finish)).unwrap();
        body["choices"][0]["finish_reason"].as_str().unwrap().to_owned()
    };
    let call = [("f", "{}")];
    assert_eq!(finish(&[], Finish::Stop), "stop");
    assert_eq!(finish(&call, Finish::Stop), "tool_calls");
    assert_eq!(finish(&call, Finish::Length), "length");
    assert_eq!(finish(&[], Finish::Abort), "length");
}

#[test]
fn e01_e02_a_stream_is_complete() {
    let reply = reply(Some("r"), "", &[("f", "{}"), ("g", "")]);
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\",\"created\":9,\
             \"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
             \"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let first = |index: usize, id: &str, name: &str| {
        format!(
            "{{\"tool_calls\":[{{\"index\":{index},\"id\":\"{id}\",\"type\":\"function\",\
             \"function\":{{\"name\":\"{name}\",\"arguments\":\"\"}}}}]}}"
        )
    };
    let want = [
        chunk(r#"{"role":"assistant","content":null}"#, "null"),
        chunk(r#"{"reasoning_content":"r"}"#, "null"),
        chunk(&first(0, "c0", "f"), "null"),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#, "null"),
        chunk(&first(1, "c1", "g"), "null"),
        chunk(r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#, "null"),
        chunk("{}", "\"tool_calls\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(stream_of(&reply, false), want.concat());
}

#[test]
fn c10_a_call_without_arguments_has_an_empty_object() {
    for arguments in ["", " \n", "{}"] {
        let reply = reply(None, "", &[("now", arguments)]);
        let stream = stream_of(&reply, true);
        let parts = chunks(&stream);
        let told = parts.iter().filter_map(|chunk| {
            chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
        });
        assert_eq!(told.collect::<Vec<_>>(), ["", "{}"]);
        let whole: Value = serde_json::from_str(&json_of(&reply, Finish::Stop)).unwrap();
        let call = &whole["choices"][0]["message"]["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], "{}");
        assert_eq!(folded(&stream), whole);
    }
}

#[test]
fn e03_usage_comes_last_when_asked_for() {
    let stream = stream_of(&reply(None, "hi", &[]), true);
    let last = chunks(&stream).pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 8);
    assert!(!stream_of(&reply(None, "hi", &[]), false).contains("usage"));
}

#[test]
fn long_texts_are_cut_between_characters() {
    let text = format!("x{}", "\u{1f600}".repeat(3_000));
    let stream = stream_of(&reply(None, &text, &[("f", &text)]), true);
    let longest = stream.split("\n\n").map(str::len).max().unwrap();
    assert!(longest < 4_096 + 300, "{longest}");
    let whole: Value =
        serde_json::from_str(&json_of(&reply(None, &text, &[("f", &text)]), Finish::Stop)).unwrap();
    assert_eq!(folded(&stream), whole);
}

#[test]
fn models_are_told_with_their_context() {
    let one = r#"{"id":"m","object":"model","created":0,"owned_by":"rollgate","max_model_len":8}"#;
    assert_eq!(Dialect::Chat.models("m", 8, true), one);
    let list = format!(r#"{{"object":"list","data":[{one}]}}"#);
    assert_eq!(Dialect::Chat.models("m", 8, false), list);
    let one = concat!(
        r#"{"type":"model","id":"m","display_name":"m","created_at":"1970-01-01T00:00:00Z","#,
        r#""max_input_tokens":8}"#
    );
    assert_eq!(Dialect::Messages.models("m", 8, true), one);
    let list = format!(r#"{{"data":[{one}],"has_more":false,"first_id":"m","last_id":"m"}}"#);
    assert_eq!(Dialect::Messages.models("m", 8, false), list);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z\"\\\\\n\r\u{0}\u{7f}\u{2028}\u{1f600}\u{5317}]{0,20}",
        (4_080_usize..4_100).prop_map(|count| format!("{}\u{1f600}y", "x".repeat(count))),
    ]
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let call = ("[a-z0-9_]{1,9}", "[a-z]{1,9}", text())
        .prop_map(|(id, name, arguments)| ToolCall { id, name, arguments });
    (prop::option::of(text()), text(), prop::collection::vec(call, 0..4)).prop_map(
        |(reasoning, content, tool_calls)| Reply {
            reasoning,
            content,
            tool_calls,
            ill_formed: false,
            remarks: Vec::new(),
        },
    )
}

proptest! {
    /// A client that adds the events up has what the JSON reply says.
    #[test]
    fn events_add_up_to_the_reply(
        reply in any_reply(),
        finish in prop_oneof![Just(Finish::Stop), Just(Finish::Length), Just(Finish::Abort)],
    ) {
        let meta = meta(finish);
        let stream = String::from_utf8(Dialect::Chat.events(&reply, &meta, true)).unwrap();
        let whole: Value = serde_json::from_slice(&Dialect::Chat.reply(&reply, &meta)).unwrap();
        prop_assert_eq!(folded(&stream), whole);
    }

    /// What we sent, echoed back, is read as what we sent.
    #[test]
    fn an_echoed_reply_reads_as_it_was_sent(reply in any_reply()) {
        let sent: Value =
            serde_json::from_slice(&Dialect::Chat.reply(&reply, &meta(Finish::Stop))).unwrap();
        let body = json!({"model": "m", "messages": [sent["choices"][0]["message"]]});
        let asked = Dialect::Chat.read(body.to_string().as_bytes(), &()).unwrap();
        let message = &asked.messages[0];
        prop_assert_eq!(&message.content, &reply.content);
        let told = |call: &ToolCall| {
            ToolCall { arguments: call.readable_arguments().to_owned(), ..call.clone() }
        };
        let told: Vec<ToolCall> = reply.tool_calls.iter().map(told).collect();
        prop_assert_eq!(&message.tool_calls, &told);
        prop_assert_eq!(&message.reasoning, &reply.reasoning.filter(|text| !text.is_empty()));
    }
}
