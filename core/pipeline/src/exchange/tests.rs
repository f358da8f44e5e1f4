//! Whole exchanges as bytes: a request in, an engine's reply in, an answer out.

use bytes::BytesMut;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

use super::*;
use crate::engine::EngineKind;
use crate::id::{SessionHash, SessionId};
use crate::limits::Limits;
use crate::record::{Budget, Frames, Record, SessionOptions, TurnRecord};
use crate::render::sample_model::test_model;
use crate::render::{ControlText, Model};

mod again;
mod counts;
mod faults;
mod ids;
mod messages;
mod options;
mod parks;
mod responses;
mod retries;
mod views;

/// Loaded once: that is what takes long.
static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(test_model()));

/// A gate with one session, driven by hand.
struct Play {
    gatehouse: Gatehouse,
    session: Session,
    desk: Desk,
    journal: Vec<u8>,
    clock_ms: u64,
    path: String,
    headers: String,
}

/// What one request led to.
struct Seen {
    status: u16,
    body: String,
    prompt: Vec<u32>,
    engine_body: Value,
}

impl Play {
    fn new(options: SessionOptions) -> Self {
        Self::at(Self::gatehouse(), options)
    }

    fn gatehouse() -> Gatehouse {
        Gatehouse {
            model: MODEL.clone(),
            engine: EngineKind::Vllm,
            engine_model: "m".into(),
            limits: Limits { body_bytes: 100_000, engine_retries: 0, ..Limits::default() },
            keepalive_first_ms: 3_000,
            keepalive_next_ms: 5_000,
            node: "n1".into(),
            sessions: Default::default(),
        }
    }

    fn at(gatehouse: Gatehouse, options: SessionOptions) -> Self {
        let opened = gatehouse.open(SessionId::new("n1", SessionHash(1)), options, 0);
        let record = Record::Opened(Box::new(opened));
        let journal = record.clone().to_frame().unwrap().to_vec();
        let session = Session::replay(vec![record]).unwrap();
        let path = "/v1/chat/completions".to_owned();
        let desk = Desk::default();
        Self { gatehouse, session, desk, journal, clock_ms: 1_000, path, headers: String::new() }
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let now = Now { wall_ms: 1_700_000_000_000 + self.clock_ms, mono_ms: self.clock_ms };
        let random = u128::from(self.clock_ms) << 64 | 5;
        self.clock_ms += 1;
        let (gatehouse, session, desk) = (&self.gatehouse, &mut self.session, &mut self.desk);
        step(&mut Context { gatehouse, session, desk, now, random })
    }

    fn begin(&mut self, body: &str) -> (Exchange, Want) {
        let text = format!(
            "POST {} HTTP/1.1\r\nhost: g\r\n{}content-length: {}\r\n\r\n{body}",
            self.path,
            self.headers,
            body.len()
        );
        let mut bytes = BytesMut::from(text.as_bytes());
        let head = http::read_head(&mut bytes).unwrap().unwrap();
        let route = http::route(&head).unwrap();
        let (mut exchange, want) = self.step(|cx| Exchange::new(&head, &route, cx));
        let Want::AgentBytes = want else { return (exchange, want) };
        let want = self.step(|cx| exchange.agent_bytes(cx, &mut bytes));
        (exchange, want)
    }

    /// Runs a request to its end; the engine samples this text and stops.
    fn ask(&mut self, request: &Value, sampled: &str) -> Seen {
        let (mut exchange, want) = self.begin(&request.to_string());
        let Want::Engine(engine_request) = want else {
            return self.finish(&mut exchange, want, None);
        };
        let engine_body: Value = serde_json::from_slice(&engine_request.body.concat()).unwrap();
        let reply = self.engine_reply(sampled);
        let mut bytes = BytesMut::from(&reply[..]);
        let want = self.step(|cx| exchange.engine_bytes(cx, &mut bytes, false));
        self.finish(&mut exchange, want, Some(engine_body))
    }

    fn finish(&mut self, exchange: &mut Exchange, want: Want, engine: Option<Value>) -> Seen {
        let want = match want {
            Want::Durable(frame) => {
                self.journal.extend_from_slice(&frame);
                self.step(|cx| exchange.durable(cx))
            }
            other => other,
        };
        let Want::Agent(bytes) = want else { panic!("{want:?}") };
        assert!(matches!(self.step(|cx| exchange.written(cx)), Want::Done { .. }));
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let engine_body = engine.unwrap_or_default();
        let prompt = engine_body["token_ids"].as_array().cloned().unwrap_or_default();
        Seen {
            status: head[9..12].parse().unwrap(),
            body: body.to_owned(),
            prompt: prompt.iter().map(|id| id.as_u64().unwrap() as u32).collect(),
            engine_body,
        }
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.gatehouse.model.tokenizer.encode(text, ControlText::Match, &mut ids).unwrap();
        ids
    }

    fn engine_reply(&self, sampled: &str) -> Vec<u8> {
        self.engine_part(sampled, "stop", "w1")
    }

    /// A reply that ended like this, under these weights.
    fn engine_part(&self, sampled: &str, finish: &str, version: &str) -> Vec<u8> {
        let ids = self.ids(sampled);
        let content: Vec<_> =
            ids.iter().map(|id| json!({"token_id": id, "logprob": -0.5, "rank": 1})).collect();
        let body = json!({
            "request_id": "generate-tokens-x",
            "choices": [{"index": 0, "finish_reason": finish, "stop_reason": null,
                "token_ids": ids, "logprobs": {"content": content},
                "weight_versions": [{"version": version, "start": 0, "end": ids.len()}]}],
            "usage": {"completion_tokens": ids.len()},
        })
        .to_string();
        http_reply("200 OK", &body)
    }

    /// Does what the exchange wants until it waits for somebody else; what the agent was given.
    fn drive(&mut self, exchange: &mut Exchange, mut want: Want) -> (String, Want) {
        let mut given = Vec::new();
        loop {
            want = match want {
                Want::Durable(frame) => {
                    self.journal.extend_from_slice(&frame);
                    self.step(|cx| exchange.durable(cx))
                }
                Want::Agent(bytes) => {
                    given.extend_from_slice(&bytes);
                    self.step(|cx| exchange.written(cx))
                }
                other => return (String::from_utf8(given).unwrap(), other),
            };
        }
    }

    /// Gives the exchange this reply of the engine.
    fn reply(&mut self, exchange: &mut Exchange, reply: &[u8]) -> Want {
        let mut bytes = BytesMut::from(reply);
        self.step(|cx| exchange.engine_bytes(cx, &mut bytes, false))
    }

    fn woken(&mut self, exchange: &mut Exchange) -> Want {
        self.step(|cx| exchange.woken(cx))
    }

    fn gone(&mut self, exchange: &mut Exchange) {
        self.step(|cx| exchange.agent_gone(cx));
    }

    fn records(&self) -> Vec<Record> {
        Frames::new(&self.journal).read_all().unwrap().0
    }

    /// What the journal says of deliveries, in order: turn and whether it was whole.
    fn deliveries(&self) -> Vec<(u32, bool)> {
        let delivery = |record| match record {
            Record::Delivery(delivery) => Some((delivery.turn.0, delivery.whole)),
            _ => None,
        };
        self.records().into_iter().filter_map(delivery).collect()
    }

    fn turns(&self) -> Vec<TurnRecord> {
        let (records, _) = Frames::new(&self.journal).read_all().unwrap();
        let turn = |record| if let Record::Turn(turn) = record { Some(*turn) } else { None };
        records.into_iter().filter_map(turn).collect()
    }
}

fn http_reply(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// What an engine is asked to sample, and what it is asked for it.
fn call(want: &Want) -> (Vec<u32>, Value) {
    let Want::Engine(request) = want else { panic!("{want:?}") };
    let body: Value = serde_json::from_slice(&request.body.concat()).unwrap();
    let ids = body["token_ids"].as_array().unwrap();
    (ids.iter().map(|id| id.as_u64().unwrap() as u32).collect(), body)
}

fn chat(messages: Value) -> Value {
    json!({"model": "any", "messages": messages})
}

#[test]
fn the_next_prompt_is_the_stored_ids_and_the_new_stretch() {
    let mut play = Play::new(SessionOptions::default());
    let first = play.ask(&chat(json!([{"role": "user", "content": "q"}])), "answer<|im_end|>");
    assert_eq!(first.status, 200);
    assert_eq!(first.prompt, play.ids("<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"));
    let reply: Value = serde_json::from_str(&first.body).unwrap();
    assert_eq!(reply["choices"][0]["message"]["content"], "answer");
    let second = play.ask(
        &chat(json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": " answer\n"},
            {"role": "user", "content": "r"},
        ])),
        "b<|im_end|>",
    );
    let stretch = play.ids("\n<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n");
    let expected = [first.prompt, play.ids("answer<|im_end|>"), stretch.clone()].concat();
    assert_eq!(second.prompt, expected);
    let turns = play.turns();
    assert_eq!((turns[1].parent, &turns[1].stretch), (Some(turns[0].turn), &stretch));
    assert_eq!(turns[1].messages.len(), 1, "history is not recorded again");
}

#[test]
fn a_reloaded_session_goes_on_where_it_was() {
    let mut play = Play::new(SessionOptions::default());
    play.ask(&chat(json!([{"role": "user", "content": "q"}])), "a<|im_end|>");
    let (records, _) = Frames::new(&play.journal).read_all().unwrap();
    let state = play.session.state();
    play.session = Session::replay(records).unwrap();
    assert_eq!(play.session.state(), state);
    let history = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "r"},
    ]);
    play.ask(&chat(history), "b<|im_end|>");
    assert_eq!(play.turns()[1].parent, Some(crate::id::TurnIndex(0)));
}

#[test]
fn events_carry_the_same_answer_and_keepalives_come_first() {
    let mut play = Play::new(SessionOptions::default());
    let mut request = chat(json!([{"role": "user", "content": "q"}]));
    request["stream"] = true.into();
    let (mut exchange, want) = play.begin(&request.to_string());
    assert!(matches!(want, Want::Engine(_)));
    let at = |mono_ms| Now { wall_ms: 0, mono_ms };
    assert_eq!(exchange.tick(&play.gatehouse, at(3_999)), None);
    let first = exchange.tick(&play.gatehouse, at(4_001)).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200") && first.ends_with(b": keepalive\n\n\r\n"));
    assert_eq!(exchange.tick(&play.gatehouse, at(8_000)), None);
    let next = exchange.tick(&play.gatehouse, at(9_001)).unwrap();
    assert!(!next.starts_with(b"HTTP"), "the head goes out once");
    let mut bytes = BytesMut::from(&play.engine_reply("hello<|im_end|>")[..]);
    let want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, false));
    assert!(matches!(want, Want::Durable(_)));
    let Want::Agent(rest) = play.step(|cx| exchange.durable(cx)) else { panic!() };
    let rest = String::from_utf8(rest.to_vec()).unwrap();
    assert!(!rest.starts_with("HTTP") && rest.contains("hello") && rest.contains("[DONE]"));
    assert!(rest.ends_with("0\r\n\r\n"));
}

#[test]
fn k06_a_fault_inside_a_stream_is_an_event() {
    let mut play = Play::new(SessionOptions::default());
    let mut request = chat(json!([{"role": "user", "content": "q"}]));
    request["stream"] = true.into();
    let (mut exchange, _) = play.begin(&request.to_string());
    exchange.tick(&play.gatehouse, Now { wall_ms: 0, mono_ms: 90_000 }).unwrap();
    let fault = Fault::new(FaultKind::EngineDown, "the engine is gone");
    let Want::Agent(bytes) = play.step(|cx| exchange.engine_failed(cx, &fault)) else { panic!() };
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(!text.contains("HTTP/1.1") && text.contains("\"error\"") && text.contains("gone"));
    assert!(text.ends_with("0\r\n\r\n"));
}

/// A refused request: status, code, and that the message holds this.
fn check_refusal(options: SessionOptions, request: &str, status: u16, code: &str, part: &str) {
    let mut play = Play::new(options);
    let (mut exchange, want) = play.begin(request);
    let seen = play.finish(&mut exchange, want, None);
    let error: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!((seen.status, error["error"]["code"].as_str()), (status, Some(code)), "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(part), "{message:?} lacks {part:?}");
    assert_eq!(play.turns().len(), 0);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let plain = SessionOptions::default;
    check_refusal(plain(), "{\"messages\": [", 400, "bad_json", "");
    check_refusal(plain(), r#"{"model": "m"}"#, 400, "bad_request", "message is needed");
    let long = chat(json!([{"role": "user", "content": "x y z ".repeat(9_000)}])).to_string();
    check_refusal(plain(), &long, 400, "context_length_exceeded", "maximum context length");
    let huge = "x".repeat(100_001);
    check_refusal(plain(), &huge, 413, "body_too_large", "");
    let spent = SessionOptions {
        limits: Budget { turns: Some(0), tokens: None },
        ..SessionOptions::default()
    };
    let request = chat(json!([{"role": "user", "content": "q"}])).to_string();
    check_refusal(spent, &request, 403, "budget_exhausted", "turns");
}

#[test]
fn pinned_sampling_wins_and_both_are_recorded() {
    let mut options = SessionOptions::default();
    options.sampling.temperature = Some(0.7);
    options.limits.tokens = Some(6);
    let mut play = Play::new(options);
    let mut request = chat(json!([{"role": "user", "content": "q"}]));
    request["temperature"] = 0.1.into();
    request["max_tokens"] = 50.into();
    let seen = play.ask(&request, "a<|im_end|>");
    let sent = &seen.engine_body["sampling_params"];
    assert_eq!((&sent["temperature"], &sent["max_tokens"]), (&json!(0.7), &json!(6)));
    let turn = play.turns().remove(0);
    assert_eq!(turn.asked_sampling.unwrap().temperature, Some(0.1));
}

#[test]
fn an_engine_that_contradicts_itself_records_nothing() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) =
        play.begin(&chat(json!([{"role": "user", "content": "q"}])).to_string());
    let reply = String::from_utf8(play.engine_reply("a<|im_end|>")).unwrap();
    let reply = reply.replacen("\"logprob\":-0.5", "\"logprob\":-0.x", 1);
    let mut bytes = BytesMut::from(reply.as_bytes());
    let want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, false));
    let seen = play.finish(&mut exchange, want, None);
    assert_eq!((seen.status, play.turns().len()), (502, 0));
    assert_eq!(play.session.in_flight(), 1);
    drop(exchange);
    assert_eq!(play.session.in_flight(), 0);
}

#[test]
fn an_engine_that_saw_another_prompt_is_not_believed() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) =
        play.begin(&chat(json!([{"role": "user", "content": "q"}])).to_string());
    let reply = String::from_utf8(play.engine_reply("a<|im_end|>")).unwrap();
    let reply = reply.replace("\"usage\":{", "\"usage\":{\"prompt_tokens\":1,");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut bytes = BytesMut::from(reply.as_bytes());
    let want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, false));
    let seen = play.finish(&mut exchange, want, None);
    assert_eq!((seen.status, play.turns().len()), (502, 0));
    assert!(seen.body.contains("prompt tokens"), "{}", seen.body);
    assert_eq!(play.session.state().last_fault, Some("engine_bad_reply"));
    play.ask(&chat(json!([{"role": "user", "content": "q"}])), "a<|im_end|>");
    assert_eq!(play.session.state().last_fault, None);
}

#[test]
fn an_agent_cannot_get_round_what_the_session_pins() {
    let mut options = SessionOptions::default();
    options.sampling.temperature = Some(1.0);
    let mut play = Play::new(options);
    let mut request = chat(json!([{"role": "user", "content": "q"}]));
    request["sampling"] = json!({"extra": {"temperature": 0, "max_tokens": 9, "min_tokens": 1}});
    let seen = play.ask(&request, "a<|im_end|>");
    let sent = &seen.engine_body["sampling_params"];
    assert_eq!((&sent["temperature"], &sent["min_tokens"]), (&json!(1.0), &json!(1)));
    assert_ne!(sent["max_tokens"], 9);
}

#[test]
fn a_session_of_another_tokenizer_is_not_continued() {
    let mut play = Play::new(SessionOptions::default());
    let mut opened =
        play.gatehouse.open(SessionId::new("n1", SessionHash(1)), Default::default(), 0);
    opened.tokenizer_digest = "another".into();
    play.session = Session::replay(vec![Record::Opened(Box::new(opened))]).unwrap();
    let seen = play.ask(&chat(json!([{"role": "user", "content": "q"}])), "");
    assert_eq!(seen.status, 403);
    assert!(seen.body.contains("another tokenizer"), "{}", seen.body);
}
