//! One generation, six views: three dialects, each as JSON and as events.

use super::faults::{events, question};
use super::*;

/// What a client reads, whatever its dialect.
#[derive(PartialEq, Debug, Default)]
struct View {
    text: String,
    reasoning: String,
    /// Name and arguments.
    calls: Vec<(String, Value)>,
    /// Prompt tokens, sampled tokens.
    usage: (u64, u64),
    /// Whether it ended for want of tokens.
    cut: bool,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn arguments(value: &Value) -> Value {
    serde_json::from_str(value.as_str().unwrap()).unwrap()
}

fn chat_view(body: &Value) -> View {
    let choice = &body["choices"][0];
    let message = &choice["message"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    View {
        text: text(&message["content"]),
        reasoning: text(&message["reasoning_content"]),
        calls: calls
            .map(|call| {
                (text(&call["function"]["name"]), arguments(&call["function"]["arguments"]))
            })
            .collect(),
        usage: usage(&body["usage"], "prompt_tokens", "completion_tokens"),
        cut: choice["finish_reason"] == "length",
    }
}

fn responses_view(body: &Value) -> View {
    let mut view = View {
        usage: usage(&body["usage"], "input_tokens", "output_tokens"),
        cut: body["status"] == "incomplete",
        ..View::default()
    };
    for item in body["output"].as_array().unwrap() {
        let parts = item["content"].as_array().into_iter().flatten();
        let said: String = parts.map(|part| text(&part["text"])).collect();
        match item["type"].as_str().unwrap() {
            "message" => view.text.push_str(&said),
            "reasoning" => view.reasoning.push_str(&said),
            "function_call" => {
                view.calls.push((text(&item["name"]), arguments(&item["arguments"])));
            }
            other => panic!("{other}"),
        }
    }
    view
}

fn messages_view(body: &Value) -> View {
    let cached = body["usage"]["cache_read_input_tokens"].as_u64().unwrap_or(0);
    let (prompt, sampled) = usage(&body["usage"], "input_tokens", "output_tokens");
    let mut view = View {
        usage: (prompt + cached, sampled),
        cut: body["stop_reason"] == "max_tokens",
        ..View::default()
    };
    for block in body["content"].as_array().unwrap() {
        match block["type"].as_str().unwrap() {
            "text" => view.text.push_str(&text(&block["text"])),
            "thinking" => view.reasoning.push_str(&text(&block["thinking"])),
            "tool_use" => view.calls.push((text(&block["name"]), block["input"].clone())),
            other => panic!("{other}"),
        }
    }
    view
}

fn usage(usage: &Value, prompt: &str, sampled: &str) -> (u64, u64) {
    (usage[prompt].as_u64().unwrap(), usage[sampled].as_u64().unwrap())
}

/// The JSON body that these events add up to, as a client puts it together.
fn chat_sum(events: &[(Option<String>, String)]) -> Value {
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(last.1, "[DONE]");
    let mut message = json!({"content": "", "reasoning_content": "", "tool_calls": []});
    let (mut finish, mut usage) = (Value::Null, Value::Null);
    let add = |slot: &mut Value, more: &Value| {
        *slot = (text(slot) + more.as_str().unwrap_or_default()).into();
    };
    for (_, data) in chunks {
        let chunk: Value = serde_json::from_str(data).unwrap();
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        let delta = &choice["delta"];
        add(&mut message["content"], &delta["content"]);
        add(&mut message["reasoning_content"], &delta["reasoning_content"]);
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = part["index"].as_u64().unwrap() as usize;
            let calls = message["tool_calls"].as_array_mut().unwrap();
            if at == calls.len() {
                calls.push(json!({"function": {"name": "", "arguments": ""}}));
            }
            for key in ["name", "arguments"] {
                add(&mut calls[at]["function"][key], &part["function"][key]);
            }
        }
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
    }
    json!({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})
}

/// The deltas must say what the last event says.
fn responses_sum(events: &[(Option<String>, String)]) -> Value {
    let mut deltas = std::collections::BTreeMap::<String, String>::new();
    for (name, data) in events {
        let event: Value = serde_json::from_str(data).unwrap();
        if name.as_ref().unwrap().ends_with(".delta") {
            deltas.entry(text(&event["item_id"])).or_default().push_str(&text(&event["delta"]));
        }
    }
    let last: Value = serde_json::from_str(&events.last().unwrap().1).unwrap();
    for item in last["response"]["output"].as_array().unwrap() {
        let parts = item["content"].as_array().into_iter().flatten();
        let said: String = parts.map(|part| text(&part["text"])).collect();
        let whole = if item["type"] == "function_call" { text(&item["arguments"]) } else { said };
        let id = text(&item["id"]);
        assert_eq!(deltas.get(&id).map_or("", String::as_str), whole, "{item}");
    }
    last["response"].clone()
}

fn messages_sum(events: &[(Option<String>, String)]) -> Value {
    let mut body = Value::Null;
    let mut inputs = Vec::<String>::new();
    for (name, data) in events {
        let event: Value = serde_json::from_str(data).unwrap();
        let at = event["index"].as_u64().unwrap_or_default() as usize;
        match name.as_deref().unwrap() {
            "message_start" => body = event["message"].clone(),
            "content_block_start" => {
                body["content"].as_array_mut().unwrap().push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                for key in ["text", "thinking", "signature"] {
                    if let Some(more) = delta[key].as_str() {
                        let slot = &mut body["content"][at][key];
                        *slot = (text(slot) + more).into();
                    }
                }
                inputs[at].push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if !inputs[at].is_empty() => {
                body["content"][at]["input"] = serde_json::from_str(&inputs[at]).unwrap();
            }
            "message_delta" => {
                body["stop_reason"] = event["delta"]["stop_reason"].clone();
                for (key, count) in event["usage"].as_object().unwrap() {
                    body["usage"][key] = count.clone();
                }
            }
            _ => {}
        }
    }
    body
}

/// Puts a JSON body together from events, name and data each.
type Sum = fn(&[(Option<String>, String)]) -> Value;

/// The view that a client of this dialect gets of what was sampled.
fn view(dialect: Dialect, stream: bool, sampled: &str, finish: &str) -> View {
    let mut play = Play::new(SessionOptions::default());
    let (path, read, sum): (_, fn(&Value) -> View, Sum) = match dialect {
        Dialect::Chat => ("/v1/chat/completions", chat_view, chat_sum),
        Dialect::Responses => ("/v1/responses", responses_view, responses_sum),
        Dialect::Messages => ("/v1/messages", messages_view, messages_sum),
    };
    play.path = path.to_owned();
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let tool = match dialect {
        Dialect::Chat => {
            json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}})
        }
        Dialect::Responses => {
            json!({"type": "function", "name": "f", "description": "d", "parameters": schema})
        }
        Dialect::Messages => json!({"name": "f", "description": "d", "input_schema": schema}),
    };
    let mut more = json!({"tools": [tool], "stream": stream});
    if dialect == Dialect::Chat && stream {
        more["stream_options"] = json!({"include_usage": true});
    }
    let (mut exchange, want) = play.begin(&question(dialect, "q", more));
    let prompt = call(&want).0.len() as u64;
    let reply = play.engine_part(sampled, finish, "w1");
    let want = play.reply(&mut exchange, &reply);
    let (answer, _) = play.drive(&mut exchange, want);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let body = match stream {
        true => sum(&events(body)),
        false => serde_json::from_str(body).unwrap(),
    };
    let view = read(&body);
    assert_eq!(view.usage, (prompt, play.ids(sampled).len() as u64), "{dialect:?} {stream}");
    view
}

/// All six views of what was sampled are this; the prompts of the dialects are of one length, too.
fn check(sampled: &str, finish: &str, mut want: View) {
    let mut first = None;
    for dialect in Dialect::ALL {
        for stream in [false, true] {
            let seen = view(dialect, stream, sampled, finish);
            want.usage = *first.get_or_insert(seen.usage);
            assert_eq!(seen, want, "{dialect:?}, stream: {stream}, of {sampled:?}");
        }
    }
}

#[test]
fn d06_six_views_of_one_answer_agree() {
    let call = |a: &str| ("f".to_owned(), json!({"a": a}));
    let tool_call = |a: &str| {
        format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"a\": \"{a}\"}}}}\n</tool_call>")
    };
    check("hello<|im_end|>", "stop", View { text: "hello".into(), ..View::default() });
    check(
        "<think>\nlook first\n</think>\n\nit is é 漢 \u{1f600} \"q\"<|im_end|>",
        "stop",
        View {
            text: "it is é 漢 \u{1f600} \"q\"".into(),
            reasoning: "look first".into(),
            ..View::default()
        },
    );
    check(
        &format!(
            "<think>\nr\n</think>\n\nI look.\n{}\n{}<|im_end|>",
            tool_call("x"),
            tool_call("é")
        ),
        "stop",
        View {
            text: "I look.".into(),
            reasoning: "r".into(),
            calls: vec![call("x"), call("é")],
            ..View::default()
        },
    );
    check(
        &format!("<think>\nr\n</think>\n\n{}<|im_end|>", tool_call("x")),
        "stop",
        View { reasoning: "r".into(), calls: vec![call("x")], ..View::default() },
    );
    check("cut of", "length", View { text: "cut of".into(), cut: true, ..View::default() });
    check(
        "<think>\nall went into",
        "length",
        View { reasoning: "all went into".into(), cut: true, ..View::default() },
    );
}

#[test]
fn e05_each_thought_is_in_the_prompt_once() {
    let mut play = Play::new(SessionOptions::default());
    let mut messages = vec![json!({"role": "user", "content": "q"})];
    for turn in 0..3 {
        let sampled = format!("<think>\nthought {turn}\n</think>\n\na{turn}<|im_end|>");
        let seen = play.ask(&chat(json!(messages)), &sampled);
        let answer: Value = serde_json::from_str(&seen.body).unwrap();
        let mut message = answer["choices"][0]["message"].clone();
        // Either name is read, and both are one thought.
        message["reasoning"] = message["reasoning_content"].clone();
        messages.extend([message, json!({"role": "user", "content": format!("q{turn}")})]);
    }
    let seen = play.ask(&chat(json!(messages)), "end<|im_end|>");
    let model = &play.gatehouse.model;
    let bytes: Vec<u8> =
        seen.prompt.iter().flat_map(|id| model.tokenizer.bytes_of(*id).unwrap().to_vec()).collect();
    let prompt = String::from_utf8(bytes).unwrap();
    for turn in 0..3 {
        assert_eq!(prompt.matches(&format!("thought {turn}")).count(), 1, "{prompt}");
    }
    let turns = play.turns();
    let recorded: usize = turns[..3].iter().map(|turn| turn.stretch.len() + turn.ids.len()).sum();
    assert_eq!(seen.prompt.len(), recorded + turns[3].stretch.len());
}

#[test]
fn unmet_choices_of_tools_are_remarked_and_not_enforced() {
    let tools = json!([{"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "g"}}]);
    let one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let cases = [
        (json!("required"), Value::Null, "text".to_owned(), vec!["tool_choice_unmet"]),
        (json!("required"), Value::Null, one.to_owned(), vec![]),
        (named("g"), Value::Null, one.to_owned(), vec!["tool_choice_unmet"]),
        (named("f"), Value::Null, one.to_owned(), vec![]),
        (json!("auto"), json!(false), format!("{one}\n{one}"), vec!["parallel_calls_unwanted"]),
        (json!("auto"), json!(true), format!("{one}\n{one}"), vec![]),
    ];
    for (choice, parallel, sampled, want) in cases {
        let mut play = Play::new(SessionOptions::default());
        let mut request = chat(json!([{"role": "user", "content": "q"}]));
        request["tools"] = tools.clone();
        request["tool_choice"] = choice.clone();
        request["parallel_tool_calls"] = parallel;
        let seen = play.ask(&request, &format!("{sampled}<|im_end|>"));
        assert_eq!(seen.status, 200);
        let told = seen.engine_body["sampling_params"].as_object().unwrap();
        assert!(!told.keys().any(|key| key.contains("tool")), "nothing binds the engine: {told:?}");
        assert_eq!(play.turns()[0].reply.remarks, want, "{choice} {sampled}");
    }
}

#[test]
fn a_compaction_has_a_path_and_a_scene_of_its_own() {
    let mut play = Play::new(SessionOptions::default());
    let body = question(Dialect::Responses, "q", json!({"stream": true}));
    play.path = "/v1/responses".into();
    let (mut turn, want) = play.begin(&body);
    assert!(matches!(want, Want::Engine(_)));
    play.gone(&mut turn);
    play.path = "/v1/responses/compact".into();
    let (mut exchange, want) = play.begin(&body);
    assert!(matches!(want, Want::Engine(_)), "the same body at another path is no retry: {want:?}");
    let reply = play.engine_reply("the summary<|im_end|>");
    let want = play.reply(&mut exchange, &reply);
    let (answer, _) = play.drive(&mut exchange, want);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/json"), "it has no stream: {head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["object"], "response.compaction");
    let last = body["output"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["type"], "compaction", "{body}");
    assert!(!body.to_string().contains("the summary"), "it is opaque: {body}");
    let verdict = &play.turns()[0].verdict;
    assert_eq!((verdict.scene, verdict.rule.as_str()), (Scene::Compaction, "entry-url"));
}
