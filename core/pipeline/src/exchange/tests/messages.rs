//! Anthropic Messages, from a request's body to the prompt, and from sampled ids to the answer.

use super::*;
use crate::id::TurnIndex;
use crate::record::HistoryMode;
use crate::render::sample_model::{TEMPLATE, test_files};
use crate::turn::ToolChoice;

const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

fn play() -> Play {
    of(SessionOptions::default())
}

fn of(options: SessionOptions) -> Play {
    Play { path: "/v1/messages?beta=true".to_owned(), ..Play::new(options) }
}

fn request(messages: Value) -> Value {
    json!({"model": "any", "max_tokens": 200, "messages": messages})
}

fn said(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn result(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}})
}

/// The blocks of an answer.
fn content(seen: &Seen) -> Value {
    assert_eq!(seen.status, 200, "{}", seen.body);
    serde_json::from_str::<Value>(&seen.body).unwrap()["content"].take()
}

fn prompt(play: &Play, seen: &Seen) -> String {
    let mut bytes = Vec::new();
    play.gatehouse.model.detokenize(&seen.prompt, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

fn check_extends(play: &Play, before: &Seen, sampled: &str, after: &Seen) {
    let so_far = [before.prompt.clone(), play.ids(sampled)].concat();
    assert!(after.prompt.starts_with(&so_far), "{}", prompt(play, after));
}

#[test]
fn a01_system_in_the_middle_is_shown_where_it_stands() {
    let mut play = play();
    let mut messages = vec![
        said("user", json!("hi")),
        said("system", json!("plan mode is on")),
        said("user", json!("go")),
    ];
    let first = play.ask(&request(json!(messages)), "a<|im_end|>");
    let shown = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>system\nplan mode is on<|im_end|>\n\
                 <|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt(&play, &first), shown);
    messages.extend([said("assistant", content(&first)), said("user", json!("on"))]);
    let second = play.ask(&request(json!(messages)), "b<|im_end|>");
    check_extends(&play, &first, "a<|im_end|>", &second);
}

#[test]
fn a02_results_come_before_text_in_the_prompt_and_again() {
    let mut play = play();
    let both = json!([tool_use("t1"), tool_use("t2")]);
    let mixed =
        json!([text("note"), result("t1", json!("A")), text("mid"), result("t2", json!("B"))]);
    let messages =
        request(json!([said("user", json!("q")), said("assistant", both), said("user", mixed)]));
    let first = play.ask(&messages, "a<|im_end|>");
    let shown = prompt(&play, &first);
    let end = "<|im_start|>user\n<tool_response>\nA\n</tool_response>\n\
               <tool_response>\nB\n</tool_response><|im_end|>\n\
               <|im_start|>user\nnote\nmid<|im_end|>\n<|im_start|>assistant\n";
    assert!(shown.ends_with(end), "{shown}");
    let again = play.ask(&messages, "b<|im_end|>");
    assert_eq!(again.prompt, first.prompt);
    play.session = Session::replay(play.records()).unwrap();
    assert_eq!(play.ask(&messages, "c<|im_end|>").prompt, first.prompt);
}

#[test]
fn a12_a_choice_of_no_tools_shows_none() {
    let mut play = play();
    let mut body = request(json!([said("user", json!("title?"))]));
    body["tools"] = json!([]);
    body["tool_choice"] = json!({"type": "auto", "disable_parallel_tool_use": true});
    let seen = play.ask(&body, "a<|im_end|>");
    let shown = "<|im_start|>user\ntitle?<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt(&play, &seen), shown);
}

#[test]
fn a13_empty_messages_are_no_turns() {
    let mut play = play();
    let messages = json!([
        said("user", json!("q")),
        said("assistant", json!("")),
        said("user", json!([text("")])),
        said("user", json!("r")),
    ]);
    let seen = play.ask(&request(messages), "a<|im_end|>");
    let shown = "<|im_start|>user\nq<|im_end|>\n<|im_start|>user\nr<|im_end|>\n\
                 <|im_start|>assistant\n";
    assert_eq!(prompt(&play, &seen), shown);
}

#[test]
fn a03_no_picture_gets_into_the_prompt() {
    let mut play = play();
    let data = "iVBORw0KGgo=";
    let image = json!({"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let seen =
        play.ask(&request(json!([said("user", json!([text("see"), image]))])), "a<|im_end|>");
    let shown = prompt(&play, &seen);
    assert!(shown.contains("see[image omitted]") && !shown.contains(data), "{shown}");
    assert_eq!(play.turns()[0].messages[0].media_dropped, 1);
}

#[test]
fn a08_a_moving_cache_mark_makes_no_other_history() {
    let mut play = play();
    let mut marked = text("q");
    marked["cache_control"] = json!({"type": "ephemeral"});
    let first = play.ask(&request(json!([said("user", json!([marked]))])), "a<|im_end|>");
    let mut next = text("r");
    next["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
    let messages = json!([
        said("user", json!("q")),
        said("assistant", content(&first)),
        said("user", json!([next])),
    ]);
    let second = play.ask(&request(messages), "b<|im_end|>");
    check_extends(&play, &first, "a<|im_end|>", &second);
}

#[test]
fn a14_a_result_without_its_call_is_text_of_a_tool() {
    let mut play = play();
    let question = said("user", json!("q"));
    let first = play.ask(&request(json!([question])), &format!("{CALL}<|im_end|>"));
    let own = content(&first)[0]["id"].as_str().unwrap().to_owned();
    // A compacted history: the call is gone, its result is not.
    let messages = json!([
        said("user", json!("summary: ...")),
        said("user", json!([result(&own, json!("42"))])),
        said("user", json!("continue")),
    ]);
    let second = play.ask(&request(messages), "b<|im_end|>");
    let shown = "<|im_start|>user\nsummary: ...<|im_end|>\n\
                 <|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n\
                 <|im_start|>user\ncontinue<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt(&play, &second), shown);
    assert_eq!(play.turns()[1].parent, None);
}

#[test]
fn a15_an_interrupted_call_stays_unanswered() {
    let mut play = play();
    let sampled = format!("{CALL}\n{CALL}<|im_end|>");
    let first = play.ask(&request(json!([said("user", json!("q"))])), &sampled);
    let blocks = content(&first);
    let id = blocks[0]["id"].as_str().unwrap().to_owned();
    let messages = json!([
        said("user", json!("q")),
        said("assistant", blocks),
        said("user", json!([result(&id, json!("A")), text("stop")])),
    ]);
    let second = play.ask(&request(messages), "b<|im_end|>");
    let stretch = "\n<|im_start|>user\n<tool_response>\nA\n</tool_response><|im_end|>\n\
                   <|im_start|>user\nstop<|im_end|>\n<|im_start|>assistant\n";
    let want = [first.prompt, play.ids(&sampled), play.ids(stretch)].concat();
    assert_eq!(second.prompt, want);
}

/// The model wrote text on both sides of its call; it is sent as text, then the call. Who sends the
/// text back on both sides has another history.
#[test]
fn a16_text_on_both_sides_of_a_call_is_no_recorded_turn() {
    let sampled = format!("A\n{CALL}\nB<|im_end|>");
    let parent_of = |order: fn(Value) -> Value| {
        let mut play = play();
        let first = play.ask(&request(json!([said("user", json!("q"))])), &sampled);
        let blocks = content(&first);
        assert_eq!(blocks[0], text("A\nB"));
        let id = blocks[1]["id"].as_str().unwrap().to_owned();
        let messages = json!([
            said("user", json!("q")),
            said("assistant", order(blocks)),
            said("user", json!([result(&id, json!("r"))])),
        ]);
        let second = play.ask(&request(messages), "b<|im_end|>");
        (play.turns()[1].parent, prompt(&play, &second))
    };
    let (parent, _) = parent_of(|blocks| blocks);
    assert_eq!(parent, Some(TurnIndex(0)));
    let (parent, shown) = parent_of(|blocks| json!([text("A"), blocks[1], text("B")]));
    assert_eq!(parent, None);
    let order =
        ["A\n<tool_call>", "</tool_call><|im_end|>\n<|im_start|>assistant\n", "B<|im_end|>"];
    let places: Vec<_> = order.iter().map(|part| shown.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{shown}");
}

#[test]
fn a20_the_attribution_line_is_taken_out() {
    let line = |nonce: &str| format!("x-anthropic-billing-header: cc_version=9.9; cch={nonce};");
    let forms: [fn(String) -> Value; 4] = [
        |line| json!([text(&line), text("Agent rules\n\nMore")]),
        |line| json!([text(&format!("{line}\n")), text("Agent rules\n\nMore")]),
        |line| json!([text(&format!("{line}\nAgent rules\n\nMore"))]),
        |line| json!(format!("{line}\nAgent rules\n\nMore")),
    ];
    for form in forms {
        let mut play = play();
        let quoted = format!("what is\n{}\nfor?", line("aa111"));
        let mut first = request(json!([said("user", json!(quoted))]));
        first["system"] = form(line("aa111"));
        let first = play.ask(&first, "a<|im_end|>");
        let shown = prompt(&play, &first);
        assert!(
            shown.starts_with("<|im_start|>system\nAgent rules\n\nMore<|im_end|>\n"),
            "{shown}"
        );
        assert!(shown.contains(&format!("<|im_start|>user\n{quoted}<|im_end|>")), "{shown}");
        let mut second = request(json!([
            said("user", json!(quoted)),
            said("assistant", content(&first)),
            said("user", json!("on")),
        ]));
        second["system"] = form(line("bb222"));
        let second = play.ask(&second, "b<|im_end|>");
        check_extends(&play, &first, "a<|im_end|>", &second);
        assert_eq!(play.turns()[1].stripped, 1);
    }
}

fn with_template(template: String) -> Play {
    let files = crate::render::ModelFiles { template: Some(template), ..test_files() };
    let model = Arc::new(Model::load(files).unwrap());
    let gatehouse = Gatehouse { model, ..Play::gatehouse() };
    let options = SessionOptions::default();
    Play { path: "/v1/messages".to_owned(), ..Play::at(gatehouse, options) }
}

/// An agent sends ids in an alphabet of its own; the prompt goes by those that were sampled.
#[test]
fn a21_results_go_by_the_ids_of_the_sampled_calls() {
    let printed = "<tool_response>\\n' ~ message.tool_call_id ~ ' ' ~";
    let mut play = with_template(TEMPLATE.replace("<tool_response>\\n' ~", printed));
    let sampled = format!("{CALL}\n{CALL}<|im_end|>");
    let first = play.ask(&request(json!([said("user", json!("q"))])), &sampled);
    let blocks = content(&first);
    let ids = [0, 1].map(|at| blocks[at]["id"].as_str().unwrap().to_owned());
    let theirs = [0, 1].map(|at| format!("toolu{at}"));
    let messages = json!([
        said("user", json!("q")),
        said("assistant", json!([tool_use(&theirs[0]), tool_use(&theirs[1])])),
        said("user", json!([result(&theirs[0], json!("A")), result(&theirs[1], json!("B"))])),
    ]);
    let second = play.ask(&request(messages), "b<|im_end|>");
    let stretch = format!(
        "\n<|im_start|>user\n<tool_response>\n{} A\n</tool_response>\n<tool_response>\n{} B\n\
         </tool_response><|im_end|>\n<|im_start|>assistant\n",
        ids[0], ids[1]
    );
    let want = [first.prompt.clone(), play.ids(&sampled), play.ids(&stretch)].concat();
    assert_eq!(second.prompt, want, "{}", prompt(&play, &second));
}

#[test]
fn a22_a_template_that_refuses_is_the_agents_fault() {
    let one_call = "{%- for call in message.tool_calls or [] %}\
        {%- if not loop.first %}{{ raise_exception('one call at a time') }}{%- endif %}";
    let template = TEMPLATE.replace("{%- for call in message.tool_calls or [] %}", one_call);
    let mut play = with_template(template);
    let messages = json!([
        said("user", json!("q")),
        said("assistant", json!([tool_use("t1"), tool_use("t2")])),
        said("user", json!([result("t1", json!("1")), result("t2", json!("2"))])),
    ]);
    let (mut exchange, want) = play.begin(&request(messages).to_string());
    let seen = play.finish(&mut exchange, want, None);
    let error: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!((seen.status, &error["type"]), (400, &json!("error")));
    assert_eq!(error["error"]["type"], "invalid_request_error");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("one call at a time"), "{message}");
    assert_eq!(play.turns().len(), 0);
    let next = play.ask(&request(json!([said("user", json!("q"))])), "a<|im_end|>");
    assert_eq!(content(&next), json!([text("a")]));
}

#[test]
fn a10_a23_controls_reach_engine_and_record() {
    let mut play = play();
    let mut asked = request(json!([said("user", json!("q"))]));
    for (key, value) in [
        ("max_tokens", json!(7)),
        ("temperature", json!(0.3)),
        ("top_p", json!(0.9)),
        ("top_k", json!(5)),
        ("stop_sequences", json!(["STOP"])),
        ("tools", json!([{"name": "f", "input_schema": {"type": "object"}}])),
        ("tool_choice", json!({"type": "any", "disable_parallel_tool_use": true})),
    ] {
        asked[key] = value;
    }
    let seen = play.ask(&asked, "a<|im_end|>");
    let sent = &seen.engine_body["sampling_params"];
    let want = json!({"max_tokens": 7, "temperature": 0.3, "top_p": 0.9, "top_k": 5});
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&sent[name], value, "{name}");
    }
    assert_eq!(sent["stop"], json!(["STOP"]));
    let turn = play.turns().remove(0);
    assert_eq!(turn.sampling.max_tokens, Some(7));
    assert_eq!((turn.sampling.temperature, turn.sampling.top_k), (Some(0.3), Some(5)));
    assert_eq!((turn.sampling.top_p, turn.sampling.stop), (Some(0.9), vec!["STOP".to_owned()]));
    assert_eq!(turn.tool_choice, ToolChoice::Required);
    assert_eq!(turn.parallel_tool_calls, Some(false));
}

/// What an answer that was cut inside a call looks like, as JSON and as events.
#[test]
fn c09_a_call_cut_in_its_arguments_is_none() {
    for stream in [false, true] {
        let mut play = play();
        let mut asked = request(json!([said("user", json!("q"))]));
        asked["stream"] = stream.into();
        let (mut exchange, _) = play.begin(&asked.to_string());
        let cut = "x\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"p";
        let reply = play.engine_part(cut, "length", "w1");
        let want = play.reply(&mut exchange, &reply);
        let (given, _) = play.drive(&mut exchange, want);
        assert!(given.starts_with("HTTP/1.1 200"), "{given}");
        assert!(given.contains(r#""stop_reason":"max_tokens""#), "{given}");
        assert!(!given.contains("tool_use"), "{given}");
        assert!(play.turns()[0].reply.ill_formed);
    }
}

#[test]
fn c12_a_stream_that_fails_ends_with_an_error_and_no_turn() {
    let mut play = play();
    let mut asked = request(json!([said("user", json!("q"))]));
    asked["stream"] = true.into();
    let (mut exchange, _) = play.begin(&asked.to_string());
    let alive = exchange.tick(&play.gatehouse, Now { wall_ms: 0, mono_ms: 90_000 }).unwrap();
    assert!(String::from_utf8_lossy(&alive).contains("event: ping\ndata: {\"type\":\"ping\"}\n\n"));
    let fault = Fault::new(FaultKind::EngineDown, "the engine is gone");
    let Want::Agent(bytes) = play.step(|cx| exchange.engine_failed(cx, &fault)) else { panic!() };
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains("event: error\ndata: {\"type\":\"error\",\"error\":{"), "{text}");
    assert!(!text.contains("message_stop") && !text.contains("end_turn"), "{text}");
    assert_eq!(play.turns().len(), 0);
}

/// The three ways in which thinking comes back. Sticky history looks at none of them; faithful
/// history goes on from what the template would write, and it writes other text without thinking.
#[test]
fn c13_thinking_comes_back_signed_otherwise_or_not_at_all() {
    let sampled = format!("<think>\nr\n</think>\n\nt\n{CALL}<|im_end|>");
    let parent = |history: HistoryMode, change: fn(&mut Value)| {
        let mut play = of(SessionOptions { history: Some(history), ..SessionOptions::default() });
        let first = play.ask(&request(json!([said("user", json!("q"))])), &sampled);
        let mut blocks = content(&first);
        assert_eq!((&blocks[0]["type"], &blocks[0]["thinking"]), (&json!("thinking"), &json!("r")));
        let signature = blocks[0]["signature"].as_str().unwrap();
        assert_eq!(signature, format!("rg1_{}", play.turns()[0].request_id));
        let id = blocks[2]["id"].as_str().unwrap().to_owned();
        change(&mut blocks);
        let messages = json!([
            said("user", json!("q")),
            said("assistant", blocks),
            said("user", json!([result(&id, json!("ok"))])),
        ]);
        let second = play.ask(&request(messages), "b<|im_end|>");
        assert_eq!(second.status, 200, "{}", second.body);
        play.turns()[1].parent.is_some()
    };
    let changes: [fn(&mut Value); 3] = [
        |_| {},
        |blocks| blocks[0]["signature"] = "zzz".into(),
        |blocks| drop(blocks.as_array_mut().unwrap().remove(0)),
    ];
    let all = |history| changes.map(|change| parent(history, change));
    assert_eq!(all(HistoryMode::Sticky), [true, true, true]);
    assert_eq!(all(HistoryMode::Faithful), [true, true, false]);
}

#[test]
fn a_tool_that_is_loaded_later_goes_on_with_the_history() {
    let mut play = play();
    let search = json!({"name": "f", "input_schema": {"type": "object"}});
    let late = json!({"name": "late", "description": "d", "defer_loading": true,
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    let mut first = request(json!([said("user", json!("q"))]));
    first["tools"] = json!([search]);
    let sampled = format!("{CALL}<|im_end|>");
    let first = play.ask(&first, &sampled);
    let blocks = content(&first);
    let id = blocks[0]["id"].as_str().unwrap().to_owned();
    let loaded = json!([{"type": "tool_reference", "tool_name": "late"}]);
    let mut second = request(json!([
        said("user", json!("q")),
        said("assistant", blocks),
        said("user", json!([result(&id, loaded)])),
    ]));
    second["tools"] = json!([search, late]);
    let late_call = "<tool_call>\n{\"name\": \"late\", \"arguments\": {\"n\": 1}}\n</tool_call>";
    let second = play.ask(&second, &format!("{late_call}<|im_end|>"));
    check_extends(&play, &first, &sampled, &second);
    let told =
        "<tool_response>\nTool loaded: {\"name\":\"late\",\"description\":\"d\",\"parameters\":";
    assert!(prompt(&play, &second).contains(told), "{}", prompt(&play, &second));
    assert_eq!(content(&second)[0]["name"], "late");
    let turns = play.turns();
    assert_eq!((turns[1].parent, turns[1].root), (Some(TurnIndex(0)), turns[0].root));
    assert_eq!(turns[1].reply.remarks, [""; 0], "the call is of a tool that was told");
}
