//! Sessions that speak Responses: what a conversation that comes back is to the engine.

use serde_json::{Value, json};

use super::*;
use crate::id::TurnIndex;
use crate::render::ModelFiles;
use crate::render::sample_model::test_files;
use crate::sample::{Attempt, build};
use crate::scene::Scene;

const CALLS: &str = "<think>\nr\n</think>\n\nt\n<tool_call>\n{\"name\": \"f\", \"arguments\": \
                     {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": \
                     {}}\n</tool_call><|im_end|>";

fn play() -> Play {
    let mut play = Play::new(SessionOptions::default());
    play.path = "/v1/responses".to_owned();
    play
}

fn request(input: &[Value]) -> Value {
    let tools = json!([
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
        {"type": "custom", "name": "patch"},
    ]);
    json!({"model": "any", "input": input, "tools": tools})
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn result(call: &Value) -> Value {
    let kind = format!("{}_output", call["type"].as_str().unwrap());
    json!({"type": kind, "call_id": call["call_id"], "output": "ok"})
}

/// Output items of an answer.
fn items(seen: &Seen) -> Vec<Value> {
    assert_eq!(seen.status, 200, "{}", seen.body);
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    body["output"].as_array().unwrap().clone()
}

/// Asks, echoes the answer's items as this agent does with the results of their calls, and asks
/// again: the second prompt goes on from the ids of the first turn. The second prompt's new part, and
/// the tokens by which the echo differs from what was sampled.
fn check_goes_on(sampled: &str, echo: impl Fn(Vec<Value>) -> Vec<Value>) -> (String, u32) {
    let mut play = play();
    let first = play.ask(&request(&[user("q")]), sampled);
    let answered = items(&first);
    let calls = answered.iter().filter(|item| item["call_id"].is_string());
    let results: Vec<Value> = calls.map(result).collect();
    let more = if results.is_empty() { vec![user("next")] } else { results };
    let input = [vec![user("q")], echo(answered), more].concat();
    let second = play.ask(&request(&input), "b<|im_end|>");
    assert_eq!(second.status, 200, "{}", second.body);
    let past = [first.prompt, play.ids(sampled)].concat();
    assert!(second.prompt.starts_with(&past), "the prompt goes on from what was sampled");
    let turns = play.turns();
    assert_eq!(turns[1].parent, Some(TurnIndex(0)));
    let stretch: Vec<u8> = second.prompt[past.len()..].iter().map(|id| *id as u8).collect();
    (String::from_utf8_lossy(&stretch).into_owned(), turns[1].context_diff_tokens)
}

fn without(items: Vec<Value>, keys: &[&str]) -> Vec<Value> {
    let strip = |mut item: Value| {
        keys.iter().for_each(|key| _ = item.as_object_mut().unwrap().shift_remove(*key));
        item
    };
    items.into_iter().map(strip).collect()
}

#[test]
fn b01_b04_every_agents_echo_goes_on_from_the_sampled_ids() {
    for sampled in [CALLS, "<think>\nr\n</think>\n\nt<|im_end|>", "t<|im_end|>"] {
        let (_, differs) = check_goes_on(sampled, |items| items);
        assert_eq!(differs, 0);
        let (_, differs) = check_goes_on(sampled, |items| without(items, &["id", "status"]));
        assert_eq!(differs, 0);
        // Reasoning as opaque text only, or not at all.
        check_goes_on(sampled, |items| {
            let opaque = |item: Value| match item["type"] == "reasoning" {
                true => without(vec![item], &["content"]).remove(0),
                false => item,
            };
            items.into_iter().map(opaque).collect()
        });
        check_goes_on(sampled, |items| {
            items.into_iter().filter(|item| item["type"] != "reasoning").collect()
        });
        // Content as a text, arguments re-written.
        check_goes_on(sampled, |items| {
            let short = |mut item: Value| {
                if item["type"] == "message" {
                    item = json!({"role": "assistant", "content": item["content"][0]["text"]});
                }
                if item["arguments"].is_string() {
                    item["arguments"] =
                        item["arguments"].as_str().unwrap().replace(": ", ":").into();
                }
                item
            };
            items.into_iter().map(short).collect()
        });
    }
}

#[test]
fn b03_parallel_calls_are_one_turn_with_their_results() {
    let (text, _) = check_goes_on(CALLS, |items| items);
    assert_eq!(text.matches("ok").count(), 2, "{text}");
}

/// A session on a model whose template takes instructions at the beginning only, in one message.
fn strict_play() -> Play {
    let template = include_str!("../../../tests/templates/hostile/refuses_system.jinja");
    let files = ModelFiles { template: Some(template.to_owned()), ..test_files() };
    let model = Arc::new(Model::load(files).unwrap());
    let gatehouse = Gatehouse { model, ..Play::gatehouse() };
    let path = "/v1/responses".to_owned();
    Play { path, ..Play::at(gatehouse, SessionOptions::default()) }
}

fn place(play: &Play, prompt: &[u32], text: &str) -> usize {
    let ids = play.ids(text);
    let found = prompt.windows(ids.len()).position(|window| window == ids);
    found.unwrap_or_else(|| panic!("{text:?} is not in the prompt"))
}

#[test]
fn b05_developer_text_is_in_the_prompt() {
    for mut play in [play(), strict_play()] {
        let body = json!({"model": "any", "instructions": "I0", "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "always say BANANA"}]},
            user("capital of France?"),
        ]});
        let seen = play.ask(&body, "BANANA<|im_end|>");
        assert_eq!(seen.status, 200, "{}", seen.body);
        let texts = ["I0", "always say BANANA", "capital of France?"];
        let places = texts.map(|text| place(&play, &seen.prompt, text));
        assert!(places.is_sorted(), "{places:?}");
    }
}

#[test]
fn b06_a_late_developer_message_does_not_begin_another_segment() {
    for (mut play, wrapped) in [(play(), 0), (strict_play(), 1)] {
        let ask = |input: &[Value]| json!({"model": "any", "input": input});
        let first = play.ask(&ask(&[user("u1")]), "a1<|im_end|>");
        let mut input = [vec![user("u1")], items(&first)].concat();
        input.extend([json!({"role": "developer", "content": "new rule"}), user("u2")]);
        let second = play.ask(&ask(&input), "a2<|im_end|>");
        assert_eq!(second.status, 200, "{}", second.body);
        let past = [first.prompt, play.ids("a1<|im_end|>")].concat();
        assert!(second.prompt.starts_with(&past));
        let new = &second.prompt[past.len()..];
        assert!(place(&play, new, "new rule") < place(&play, new, "u2"));
        let turn = play.turns().remove(1);
        assert_eq!((turn.parent, turn.wrapped_instructions), (Some(TurnIndex(0)), wrapped));
    }
}

#[test]
fn b07_b08_calls_of_renamed_and_custom_tools_go_on() {
    let sampled = "<tool_call>\n{\"name\": \"n__g\", \"arguments\": {\"x\": 1.0}}\n</tool_call>\n\
                   <tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** Begin\\n\"}}\
                   \n</tool_call><|im_end|>";
    check_goes_on(sampled, |items| {
        assert_eq!((&items[0]["namespace"], &items[0]["name"]), (&json!("n"), &json!("g")));
        assert_eq!(items[1]["type"], "custom_tool_call");
        assert_eq!(items[1]["input"], "*** Begin\n");
        items
    });
}

#[test]
fn b13_references_go_on() {
    check_goes_on(CALLS, |items| {
        let refer = |item: Value| json!({"type": "item_reference", "id": item["id"]});
        items.into_iter().map(refer).collect()
    });
    let mut play = play();
    let seen =
        play.ask(&request(&[user("q"), json!({"type": "item_reference", "id": "fc_1"})]), "");
    let error: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!((seen.status, &error["error"]["code"]), (404, &json!("unknown_item")));
    assert_eq!(error["error"]["param"], "input[1].id");
    assert_eq!(play.turns().len(), 0);
}

#[test]
fn b14_nothing_is_sampled_for_a_previous_response() {
    let mut play = play();
    let first = play.ask(&request(&[user("q")]), "a<|im_end|>");
    let body: Value = serde_json::from_str(&first.body).unwrap();
    let mut request = request(&[vec![user("q")], items(&first), vec![user("r")]].concat());
    request["previous_response_id"] = body["id"].clone();
    let seen = play.ask(&request, "");
    assert_eq!((seen.status, play.turns().len()), (400, 1));
    assert!(seen.body.contains("\"param\":\"previous_response_id\""), "{}", seen.body);
}

#[test]
fn b15_a_stale_blob_changes_no_prompt() {
    let prompt = |stale: bool| {
        let mut play = play();
        let first = play.ask(&request(&[user("q")]), "<think>\nold\n</think>\n\na<|im_end|>");
        let mut input = [vec![user("q")], items(&first), vec![user("r")]].concat();
        if stale {
            input.push(input[1].clone());
        }
        input.push(json!({"role": "assistant", "content": "said elsewhere"}));
        input.push(user("s"));
        let second = play.ask(&request(&input), "b<|im_end|>");
        let turn = play.turns().remove(1);
        assert_eq!(turn.parent, Some(TurnIndex(0)));
        let counted = turn.skipped.get("reasoning").copied();
        assert_eq!(counted, stale.then_some(1));
        second.prompt
    };
    assert_eq!(prompt(true), prompt(false));
}

#[test]
fn b16_lone_reasoning_does_no_harm() {
    let mut play = play();
    let thought = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
    let seen = play.ask(&request(&[user("q"), thought, user("continue")]), "a<|im_end|>");
    assert_eq!((seen.status, play.turns().len()), (200, 1));
}

#[test]
fn b17_a_compaction_is_a_turn_and_its_summary_begins_a_segment_that_leads_to_it() {
    const SUMMARY: &str = "The parser was rewritten; two tests still fail in the lexer module.";
    let mut play = play();
    let first = play.ask(&request(&[user("rewrite the parser")]), "done<|im_end|>");
    let mut input = [vec![user("rewrite the parser")], items(&first)].concat();
    input.push(json!({"type": "compaction_trigger"}));
    let compacted = play.ask(&request(&input), &format!("{SUMMARY}<|im_end|>"));
    let past = [first.prompt, play.ids("done<|im_end|>")].concat();
    assert!(compacted.prompt.starts_with(&past), "it goes on from the line that it sums up");
    let summary = items(&compacted);
    assert_eq!((summary.len(), &summary[0]["type"]), (1, &json!("compaction")));
    assert!(!compacted.body.contains("lexer"));
    let after = [summary, vec![user("fix them")]].concat();
    play.ask(&request(&after), "fixed<|im_end|>");

    let turns = play.turns();
    let parents: Vec<_> = turns.iter().map(|turn| turn.parent.map(|parent| parent.0)).collect();
    assert_eq!(parents, [None, Some(0), None]);
    let scenes: Vec<_> = turns.iter().map(|turn| turn.verdict.scene).collect();
    assert_eq!(scenes, [Scene::Main, Scene::Compaction, Scene::Main]);
    let attempt = Attempt {
        task_id: "t".into(),
        group_id: "g".into(),
        attempt: 0,
        siblings: 1,
        agent: "codex".into(),
        outcome: None,
    };
    let samples = build(&play.records(), &attempt);
    let last = samples.last().unwrap();
    let links: Vec<_> = last.links.iter().map(|link| (link.kind, link.to.turn)).collect();
    let to = |turn| (crate::sample::LinkKind::Compacts, Some(TurnIndex(turn)));
    assert_eq!(links, [to(0), to(1)]);
}

#[test]
fn b17_the_compact_call_is_a_turn_too() {
    let mut play = play();
    let first = play.ask(&request(&[user("q")]), "a<|im_end|>");
    play.path = "/v1/responses/compact".to_owned();
    let input = [vec![user("q")], items(&first)].concat();
    let mut compact = request(&input);
    compact["input"].as_array_mut().unwrap().push(user(&"x".repeat(8_000)));
    let seen = play.ask(&compact, "the summary<|im_end|>");
    assert!(seen.prompt.starts_with(&first.prompt));
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(body["object"], "response.compaction");
    let kept = items(&seen);
    let types: Vec<_> = kept.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["message", "message", "compaction"]);
    play.path = "/v1/responses".to_owned();
    let next = play.ask(&request(&kept), "b<|im_end|>");
    let summary = play.ids("the summary");
    assert!(next.prompt.windows(summary.len()).any(|window| window == summary));
    let turns = play.turns();
    assert_eq!((turns[1].parent, turns[1].verdict.scene), (Some(TurnIndex(0)), Scene::Compaction));
    assert_eq!((turns[2].parent, turns[2].verdict.scene), (None, Scene::Main));
}

#[test]
fn d04_white_space_before_a_call_comes_back_with_it() {
    let sampled = "<think>\nr\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n\
                   </tool_call><|im_end|>";
    check_goes_on(sampled, |items| {
        let types: Vec<_> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["reasoning", "function_call"]);
        items
    });
}

#[test]
fn d07_a_stream_whose_engine_dies_ends_as_failed() {
    let mut play = play();
    let mut request = request(&[user("q")]);
    request["stream"] = true.into();
    let (mut exchange, _) = play.begin(&request.to_string());
    exchange.tick(&play.gatehouse, Now { wall_ms: 0, mono_ms: 90_000 }).unwrap();
    let fault = Fault::new(FaultKind::EngineDown, "the engine is gone");
    let Want::Agent(bytes) = play.step(|cx| exchange.engine_failed(cx, &fault)) else { panic!() };
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains("event: response.created\n"), "{text}");
    assert!(text.contains("event: response.failed\n") && text.contains("engine_down"), "{text}");
    assert!(!text.contains("response.completed") && !text.contains("[DONE]"), "{text}");
    assert!(text.contains("\"model\":\"any\"") && text.ends_with("0\r\n\r\n"), "{text}");
}

/// What `compact` answers where the engine says this, and what the next exchange of the session is
/// told.
fn compact_fault(sampled: &str, finish: &str, word: &str) {
    let mut play = play();
    let first = play.ask(&request(&[user("q")]), "a<|im_end|>");
    let input = [vec![user("q")], items(&first), vec![user("more")]].concat();
    play.path = "/v1/responses/compact".to_owned();
    let (mut exchange, want) = play.begin(&request(&input).to_string());
    assert!(matches!(want, Want::Engine(_)));
    let reply = play.engine_part(sampled, finish, "w1");
    let want = play.reply(&mut exchange, &reply);
    let (given, want) = play.drive(&mut exchange, want);
    assert!(matches!(want, Want::Done { keep_alive: true }), "{want:?}");
    assert!(given.starts_with("HTTP/1.1 502 "), "{given}");
    let (_, body) = given.split_once("\r\n\r\n").unwrap();
    let error: Value = serde_json::from_str(body).unwrap();
    assert_eq!(error["error"]["code"], "engine_bad_reply");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(word), "{message}");
    assert_eq!(exchange.fault().map(|fault| fault.kind), Some(FaultKind::EngineBadReply));
    drop(exchange);
    assert_eq!(play.turns().len(), 2, "what was sampled is recorded");
    assert_eq!(play.deliveries(), [(1, false)]);
    assert_eq!(play.session.state().last_fault, Some("engine_bad_reply"));
    // The same again asks the engine again, and the conversation goes on as it was.
    let again = play.ask(&request(&input), "the summary<|im_end|>");
    assert_eq!(items(&again).len(), 3);
    play.path = "/v1/responses".to_owned();
    let next = play.ask(&request(&input), "b<|im_end|>");
    let past = [first.prompt, play.ids("a<|im_end|>")].concat();
    assert!(next.prompt.starts_with(&past));
    assert_eq!(play.session.state().last_fault, None);
}

#[test]
fn b17_a_compact_call_without_a_whole_summary_is_a_fault() {
    compact_fault("<|im_end|>", "stop", "wrote no summary");
    compact_fault("<think>\nr\n</think>\n\n<|im_end|>", "stop", "wrote no summary");
    compact_fault("the summ", "length", "the summary is cut");
}

#[test]
fn b17_a_compact_call_whose_engine_gives_up_is_a_fault() {
    let mut play = play();
    play.path = "/v1/responses/compact".to_owned();
    let (mut exchange, _) = play.begin(&request(&[user("q")]).to_string());
    let reply = play.engine_part("the summ", "abort", "w1");
    let mut want = play.reply(&mut exchange, &reply);
    // It is asked for the rest until it may wait no more.
    while let Want::Wait { ms } = want {
        play.clock_ms += ms;
        want = play.woken(&mut exchange);
        if let Want::Engine(_) = want {
            let reply = play.engine_part("", "abort", "w1");
            want = play.reply(&mut exchange, &reply);
        }
    }
    let (given, _) = play.drive(&mut exchange, want);
    assert!(given.starts_with("HTTP/1.1 502 "), "{given}");
    assert!(given.contains("the engine gave up"), "{given}");
    assert_eq!((play.turns().len(), play.deliveries()), (1, vec![(0, false)]));
}

#[test]
fn a23_controls_reach_engine_and_record() {
    let mut play = play();
    let mut asked = request(&[user("q")]);
    let controls = json!({"max_output_tokens": 7, "temperature": 0.3, "top_p": 0.9});
    for (name, value) in controls.as_object().unwrap() {
        asked[name] = value.clone();
    }
    let seen = play.ask(&asked, "a<|im_end|>");
    let sent = &seen.engine_body["sampling_params"];
    let want = json!({"max_tokens": 7, "temperature": 0.3, "top_p": 0.9});
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&sent[name], value, "{name}");
    }
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    for (name, value) in controls.as_object().unwrap() {
        assert_eq!(&body[name], value, "{name}");
    }
    let sampling = play.turns().remove(0).sampling;
    assert_eq!(
        (sampling.max_tokens, sampling.temperature, sampling.top_p),
        (Some(7), Some(0.3), Some(0.9))
    );
}

#[test]
fn c10_a_call_without_arguments_goes_on_however_it_is_echoed() {
    let sampled = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>";
    for echoed in [json!("{}"), json!(""), json!(" { } "), json!({}), json!(null)] {
        check_goes_on(sampled, |mut items| {
            assert_eq!(items[0]["arguments"], "{}");
            items[0]["arguments"] = echoed.clone();
            items
        });
    }
}
