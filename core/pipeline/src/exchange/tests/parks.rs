//! Engines that give up, pause, restart.

use super::*;
use crate::turn::{Finish, VersionSpan};

fn begin(play: &mut Play, changes: Value) -> (Exchange, Want) {
    let mut request = chat(json!([{"role": "user", "content": "q"}]));
    for (key, value) in changes.as_object().unwrap() {
        request[key] = value.clone();
    }
    play.begin(&request.to_string())
}

fn paused() -> Vec<u8> {
    let message = "Generation is paused. Please retry after it resumes.";
    let body =
        json!({"error": {"message": message, "type": "ServiceUnavailableError", "code": 503}});
    http_reply("503 Service Unavailable", &body.to_string())
}

/// Waits as long as the exchange wants; how long that was.
#[track_caller]
fn wait(play: &mut Play, exchange: &mut Exchange, want: Want) -> (u64, Want) {
    let Want::Wait { ms } = want else { panic!("{want:?}") };
    play.clock_ms += ms;
    (ms, play.woken(exchange))
}

#[test]
fn m47_a_turn_that_the_engine_gave_up_on_twice_is_one_turn_with_three_spans() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, want) = begin(&mut play, json!({"max_tokens": 50}));
    let (prompt, first) = call(&want);
    let reply = play.engine_part("one ", "abort", "w1");
    let want = play.reply(&mut exchange, &reply);
    let (ms, want) = wait(&mut play, &mut exchange, want);
    assert_eq!(ms, 200);
    let (again, second) = call(&want);
    let one = play.ids("one ");
    assert_eq!(again, [prompt.clone(), one.clone()].concat());
    assert_eq!(second["sampling_params"]["max_tokens"], 50 - one.len());
    assert_ne!(first["request_id"], second["request_id"]);
    let reply = play.engine_part("two ", "abort", "w2");
    let want = play.reply(&mut exchange, &reply);
    let (ms, _) = wait(&mut play, &mut exchange, want);
    assert_eq!(ms, 200, "it sampled something: waits begin again");
    let reply = play.engine_part("three<|im_end|>", "stop", "w3");
    let want = play.reply(&mut exchange, &reply);
    let (given, _) = play.drive(&mut exchange, want);
    assert!(given.contains("one two three"), "{given}");
    let turn = play.turns().remove(0);
    let two = one.len() + play.ids("two ").len();
    assert_eq!(turn.resumed_at, [one.len() as u32, two as u32]);
    let span =
        |start: usize, version: &str| VersionSpan { start: start as u32, version: version.into() };
    assert_eq!(turn.versions, [span(0, "w1"), span(one.len(), "w2"), span(two, "w3")]);
    let ids = [one, play.ids("two "), play.ids("three<|im_end|>")].concat();
    assert_eq!((turn.logprobs.len(), turn.finish), (ids.len(), Finish::Stop));
    assert_eq!(turn.usage.completion_tokens as usize, ids.len());
    assert_eq!((turn.ids, turn.usage.prompt_tokens as usize), (ids, prompt.len()));
    assert_eq!(play.turns().len(), 1);
}

#[test]
fn a_paused_engine_is_asked_again_with_growing_waits() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, mut want) = begin(&mut play, json!({"stream": true}));
    let mut waits = Vec::new();
    for _ in 0..7 {
        want = play.reply(&mut exchange, &paused());
        assert!(matches!(play.woken(&mut exchange), Want::Wait { .. }), "too early");
        let (ms, next) = wait(&mut play, &mut exchange, want);
        (want, _) = (next, waits.push(ms));
        play.clock_ms += 5;
    }
    assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    let now = Now { wall_ms: 0, mono_ms: play.clock_ms };
    assert!(exchange.tick(&play.gatehouse, now).is_some(), "the agent sees signs of life");
    let (prompt, _) = call(&want);
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    let turn = play.turns().remove(0);
    assert_eq!((prompt, turn.resumed_at), (turn.stretch, vec![]));
}

#[test]
fn a_busy_engine_is_not_a_paused_one() {
    let mut play = Play::new(SessionOptions::default());
    for (status, body) in [("503 Busy", "queue is full"), ("429 Many", "paused")] {
        let (mut exchange, _) = begin(&mut play, json!({}));
        let want = play.reply(&mut exchange, &http_reply(status, body));
        let (given, _) = play.drive(&mut exchange, want);
        assert_eq!(given[9..12], status[..3], "{given}");
    }
}

/// Replies the same until the exchange waits no more; how often the engine was asked.
fn outlast(play: &mut Play, exchange: &mut Exchange, reply: &[u8]) -> (u32, String) {
    let mut asked = 1;
    loop {
        match play.reply(exchange, reply) {
            want @ Want::Wait { .. } => {
                wait(play, exchange, want);
                asked += 1;
            }
            want => return (asked, play.drive(exchange, want).0),
        }
    }
}

#[test]
fn past_the_deadline_the_agent_gets_what_there_is() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = begin(&mut play, json!({}));
    let began_ms = play.clock_ms;
    let reply = play.engine_part("par", "abort", "w1");
    let want = play.reply(&mut exchange, &reply);
    wait(&mut play, &mut exchange, want);
    let (asked, given) = outlast(&mut play, &mut exchange, &paused());
    assert!((20..40).contains(&asked), "{asked}");
    assert!((120_000..127_000).contains(&(play.clock_ms - began_ms)));
    let reply: Value = serde_json::from_str(given.split_once("\r\n\r\n").unwrap().1).unwrap();
    let choice = &reply["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("length"), &json!("par"))
    );
    let turn = play.turns().remove(0);
    assert_eq!((turn.finish, turn.ids), (Finish::Abort, play.ids("par")));
    assert_eq!(turn.reply.remarks.last().map(String::as_str), Some("aborted"));
    assert_eq!(play.session.state().last_fault, Some("engine_busy"));
}

#[test]
fn past_the_deadline_without_anything_it_gets_a_503() {
    let mut play = Play::new(SessionOptions::default());
    for reply in [paused(), play.engine_part("", "abort", "w1")] {
        let (mut exchange, _) = begin(&mut play, json!({}));
        let (_, given) = outlast(&mut play, &mut exchange, &reply);
        assert!(given.starts_with("HTTP/1.1 503") && given.contains("retry-after"), "{given}");
    }
    assert_eq!(play.turns().len(), 0);
}

#[test]
fn an_engine_that_gives_up_for_ever_is_not_asked_for_ever() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = begin(&mut play, json!({}));
    let reply = play.engine_part("x", "abort", "w1");
    let (asked, given) = outlast(&mut play, &mut exchange, &reply);
    assert_eq!(asked, 257);
    assert!(given.starts_with("HTTP/1.1 200"), "{given}");
}

#[test]
fn a_budget_that_the_parts_use_up_ends_the_turn() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = begin(&mut play, json!({"max_tokens": 3}));
    let reply = play.engine_part("xyz", "abort", "w1");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    let turn = play.turns().remove(0);
    assert_eq!((turn.finish, turn.ids), (Finish::Length, play.ids("xyz")));
}

#[test]
fn an_engine_that_restarts_is_waited_for_once_there_is_something() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = begin(&mut play, json!({"sampling": {"extra": {"min_tokens": 5}}}));
    let reply = play.engine_part("par", "abort", "w1");
    let want = play.reply(&mut exchange, &reply);
    wait(&mut play, &mut exchange, want);
    let down = Fault::new(FaultKind::EngineDown, "refused");
    let want = play.step(|cx| exchange.engine_failed(cx, &down));
    let (_, want) = wait(&mut play, &mut exchange, want);
    assert_eq!(call(&want).1["sampling_params"]["min_tokens"], 2, "three were sampled");
    let reply = play.engine_part("t<|im_end|>", "stop", "w2");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    assert_eq!(play.turns()[0].resumed_at, [3]);
}

#[test]
fn what_a_grammar_holds_together_is_sampled_from_its_start() {
    let mut play = Play::new(SessionOptions::default());
    let extra = json!({"structured_outputs": {"regex": "a+"}});
    let (mut exchange, want) = begin(&mut play, json!({"sampling": {"extra": extra}}));
    let (prompt, _) = call(&want);
    let reply = play.engine_part("aa", "abort", "w1");
    let want = play.reply(&mut exchange, &reply);
    let (_, want) = wait(&mut play, &mut exchange, want);
    assert_eq!(call(&want).0, prompt);
    let reply = play.engine_part("aaa<|im_end|>", "stop", "w2");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    let turn = play.turns().remove(0);
    assert_eq!((turn.ids, turn.resumed_at), (play.ids("aaa<|im_end|>"), vec![]));
}

#[test]
fn a_part_without_a_version_does_not_pass_for_another_ones() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = begin(&mut play, json!({}));
    let reply = play.engine_part("par", "abort", "w1");
    let want = play.reply(&mut exchange, &reply);
    wait(&mut play, &mut exchange, want);
    let reply = String::from_utf8(play.engine_reply("t<|im_end|>")).unwrap();
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["choices"][0]["weight_versions"] = Value::Null;
    let want = play.reply(&mut exchange, &http_reply("200 OK", &body.to_string()));
    play.drive(&mut exchange, want);
    let spans: Vec<_> =
        play.turns().remove(0).versions.into_iter().map(|s| (s.start, s.version)).collect();
    assert_eq!(spans, [(0, "w1".to_owned()), (3, "unreported".to_owned())]);
}

#[test]
fn an_orphan_that_is_parked_ends_with_what_it_has() {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = begin(&mut play, json!({}));
    let reply = play.engine_part("par", "abort", "w1");
    play.reply(&mut exchange, &reply);
    play.gone(&mut exchange);
    assert_eq!(play.step(|cx| exchange.give_up(cx)), None);
    let fault = Fault::new(FaultKind::EngineDown, "given up");
    let want = play.step(|cx| exchange.engine_failed(cx, &fault));
    let (_, want) = play.drive(&mut exchange, want);
    assert!(matches!(want, Want::Done { keep_alive: false }));
    assert_eq!((play.turns()[0].finish, play.deliveries()), (Finish::Abort, vec![(0, false)]));
}

/// What the exchange records when the engine's reply comes in these pieces.
fn record_of(reply: &[u8], cuts: &[usize]) -> TurnRecord {
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, mut want) = begin(&mut play, json!({}));
    let mut bytes = BytesMut::new();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (reply.len() + 1)).collect();
    ends.extend([0, reply.len()]);
    ends.sort_unstable();
    for piece in ends.windows(2) {
        bytes.extend_from_slice(&reply[piece[0]..piece[1]]);
        want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, false));
        if !matches!(want, Want::EngineBytes) {
            break;
        }
    }
    play.drive(&mut exchange, want);
    let mut turn = play.turns().remove(0);
    turn.times = Default::default();
    turn
}

#[test]
fn i06_a_reply_cut_anywhere_gives_the_same_record() {
    let play = Play::new(SessionOptions::default());
    let reply = play.engine_reply("<think>\nhm\n</think>\n\nanswer é<|im_end|>");
    let whole = record_of(&reply, &[]);
    for cut in 0..reply.len() {
        assert_eq!(record_of(&reply, &[cut]), whole, "cut at {cut}");
    }
    let mut seed = 7_usize;
    for _ in 0..50 {
        let cuts: Vec<usize> = (0..20)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed >> 33
            })
            .collect();
        assert_eq!(record_of(&reply, &cuts), whole, "cuts at {cuts:?}");
    }
}
