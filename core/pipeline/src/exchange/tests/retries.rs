//! Retries, siblings, orphans; what the journal says of answers that did not get there.

use super::*;

fn question() -> String {
    chat(json!([{"role": "user", "content": "q"}])).to_string()
}

fn body_of(given: &str) -> &str {
    given.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn two_open_requests_that_are_equal_are_siblings() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, one) = play.begin(&question());
    let (mut second, two) = play.begin(&question());
    assert_eq!(call(&one).0, call(&two).0);
    for (exchange, text) in [(&mut first, "a<|im_end|>"), (&mut second, "b<|im_end|>")] {
        let reply = play.engine_reply(text);
        let want = play.reply(exchange, &reply);
        let (given, want) = play.drive(exchange, want);
        assert!(given.contains("HTTP/1.1 200") && matches!(want, Want::Done { keep_alive: true }));
    }
    assert_eq!((play.turns().len(), play.deliveries()), (2, vec![]));
}

#[test]
fn j12_a_retry_of_a_running_orphan_gets_its_answer() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    assert!(!first.adopted());
    play.gone(&mut first);
    let (mut retry, want) = play.begin(&question());
    assert!(matches!(want, Want::Wait { .. }), "{want:?}");
    assert!(first.adopted());
    assert!(matches!(play.woken(&mut retry), Want::Wait { .. }), "it is not over yet");
    // The orphan is spoken for: whoever asks the same now is another agent.
    let (third, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
    drop(third);
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut first, &reply);
    let (lost, want) = play.drive(&mut first, want);
    assert!(matches!(want, Want::Done { keep_alive: false }));
    assert_eq!(play.deliveries(), [(0, false)]);
    let want = play.woken(&mut retry);
    let (given, _) = play.drive(&mut retry, want);
    assert_eq!(given, lost, "the answer is the same, byte for byte");
    assert_eq!((play.turns().len(), play.deliveries()), (1, vec![(0, false), (0, true)]));
}

#[test]
fn j12_a_retry_after_a_cut_answer_gets_it_again_and_samples_nothing() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    let reply = play.engine_reply("a<|im_end|>");
    let Want::Durable(frame) = play.reply(&mut first, &reply) else { panic!() };
    play.journal.extend_from_slice(&frame);
    let Want::Agent(cut) = play.step(|cx| first.durable(cx)) else { panic!() };
    play.gone(&mut first);
    let want = play.step(|cx| first.written(cx));
    let (_, want) = play.drive(&mut first, want);
    assert!(matches!(want, Want::Done { keep_alive: false }));
    drop(first);
    let (mut retry, want) = play.begin(&question());
    let (given, want) = play.drive(&mut retry, want);
    assert_eq!((given.as_bytes(), play.turns().len()), (&cut[..], 1));
    assert!(matches!(want, Want::Done { keep_alive: true }));
    assert_eq!(play.deliveries(), [(0, false), (0, true)]);
    drop(retry);
    let (_fourth, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "what was delivered is not given again");
}

#[test]
fn an_answer_that_turns_out_unread_is_given_again() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut first, &reply);
    let (unread, _) = play.drive(&mut first, want);
    let (second, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "its agent may well have read it");
    drop(second);
    let want = play.step(|cx| first.lost(cx));
    play.drive(&mut first, want);
    drop(first);
    let (mut retry, want) = play.begin(&question());
    let (given, _) = play.drive(&mut retry, want);
    assert_eq!((given, play.turns().len()), (unread, 1));
    let want = play.step(|cx| retry.lost(cx));
    play.drive(&mut retry, want);
    let want = play.step(|cx| retry.lost(cx));
    assert!(matches!(want, Want::Done { .. }), "it is lost once");
    assert_eq!(play.deliveries(), [(0, false), (0, true), (0, false)]);
}

#[test]
fn an_answer_is_kept_for_the_grace_period_only() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    play.gone(&mut first);
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut first, &reply);
    play.drive(&mut first, want);
    drop(first);
    play.clock_ms += 15_001;
    let (_late, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
}

#[test]
fn a_retry_whose_own_agent_leaves_is_taken_over_in_turn() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    play.gone(&mut first);
    let (mut second, _) = play.begin(&question());
    play.gone(&mut second);
    let (mut third, want) = play.begin(&question());
    assert!(matches!(want, Want::Wait { .. }) && second.adopted());
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut first, &reply);
    play.drive(&mut first, want);
    let want = play.woken(&mut second);
    play.drive(&mut second, want);
    let want = play.woken(&mut third);
    let (given, _) = play.drive(&mut third, want);
    assert!(body_of(&given).contains("\"a\""), "{given}");
    assert_eq!((play.turns().len(), play.deliveries()), (1, vec![(0, false), (0, true)]));
}

#[test]
fn a_request_of_another_agent_is_no_retry() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    play.gone(&mut first);
    play.headers = "x-session-id: other\r\n".into();
    let (_other, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
    play.headers = String::new();
    play.path = "/scene/title/v1/chat/completions".into();
    let (_title, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
}

#[test]
fn k05_an_orphan_that_nobody_comes_back_for_is_given_up() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, want) = play.begin(&question());
    let id = call(&want).1["request_id"].as_str().unwrap().to_owned();
    play.gone(&mut first);
    let request = play.step(|cx| first.give_up(cx)).unwrap();
    assert_eq!(request.path, "/inference/v1/abort_requests");
    let body: Value = serde_json::from_slice(&request.body.concat()).unwrap();
    assert_eq!(body, json!({"request_ids": [format!("generate-tokens-{id}")]}));
    let (_late, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "what was given up is not waited for");
    let reply = play.engine_part("par", "abort", "w1");
    let want = play.reply(&mut first, &reply);
    let (_, want) = play.drive(&mut first, want);
    assert!(matches!(want, Want::Done { keep_alive: false }));
    let turn = play.turns().remove(0);
    assert_eq!((turn.finish, turn.ids), (crate::turn::Finish::Abort, play.ids("par")));
    assert_eq!(play.deliveries(), [(0, false)]);
    drop(first);
    let (_later, want) = play.begin(&question());
    assert!(matches!(want, Want::Engine(_)), "a torso is not given for an answer");
}

#[test]
fn an_orphan_without_an_abort_route_ends_with_its_connection() {
    let gatehouse = Gatehouse { engine: EngineKind::VllmCompletions, ..Play::gatehouse() };
    let mut play = Play::at(gatehouse, SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    play.gone(&mut first);
    assert_eq!(play.step(|cx| first.give_up(cx)), None);
    let fault = Fault::new(FaultKind::EngineDown, "dropped");
    let want = play.step(|cx| first.engine_failed(cx, &fault));
    assert!(matches!(play.drive(&mut first, want).1, Want::Done { keep_alive: false }));
    assert_eq!(play.turns().len(), 0);
}

#[test]
fn a_retry_of_what_failed_or_broke_off_is_told_or_begins_anew() {
    let mut play = Play::new(SessionOptions::default());
    let (mut first, _) = play.begin(&question());
    play.gone(&mut first);
    let (mut retry, _) = play.begin(&question());
    let fault = Fault::new(FaultKind::EngineDown, "the engine is gone");
    let want = play.step(|cx| first.engine_failed(cx, &fault));
    play.drive(&mut first, want);
    drop(first);
    let want = play.woken(&mut retry);
    let (given, _) = play.drive(&mut retry, want);
    assert!(given.starts_with("HTTP/1.1 502") && given.contains("the engine is gone"), "{given}");
    drop(retry);
    let (mut first, _) = play.begin(&question());
    play.gone(&mut first);
    let (mut retry, _) = play.begin(&question());
    drop(first);
    assert!(matches!(play.woken(&mut retry), Want::Engine(_)));
}

#[test]
fn a_budget_counts_calls_under_way_and_no_retries() {
    let limits = Budget { turns: Some(2), tokens: Some(10) };
    let options = SessionOptions { limits, ..SessionOptions::default() };
    let mut play = Play::new(options);
    let mut request = chat(json!([{"role": "user", "content": "q"}]));
    request["max_tokens"] = 6.into();
    let request = request.to_string();
    let (mut first, _) = play.begin(&request);
    let (mut second, want) = play.begin(&request);
    assert_eq!(call(&want).1["sampling_params"]["max_tokens"], 4, "six of ten are reserved");
    let (mut third, want) = play.begin(&request);
    assert!(matches!(want, Want::Wait { .. }), "the others may use less: {want:?}");
    for exchange in [&mut first, &mut second] {
        play.gone(exchange);
        let reply = play.engine_reply("a<|im_end|>");
        let want = play.reply(exchange, &reply);
        play.drive(exchange, want);
    }
    let want = play.woken(&mut third);
    let (given, _) = play.drive(&mut third, want);
    assert!(given.starts_with("HTTP/1.1 200"), "an orphan's answer costs nothing: {given}");
    drop((first, second, third));
    let (mut last, want) = play.begin(&request.replace("\"q\"", "\"r\""));
    let (given, _) = play.drive(&mut last, want);
    assert!(given.starts_with("HTTP/1.1 403") && given.contains("2 turns"), "{given}");
}

#[test]
fn j13_what_was_recorded_before_a_crash_is_there_again() {
    let mut play = Play::new(SessionOptions::default());
    for text in ["a", "b", "c"] {
        play.ask(&chat(json!([{"role": "user", "content": text}])), "x<|im_end|>");
    }
    let (mut cut, _) = play.begin(&question());
    play.gone(&mut cut);
    let reply = play.engine_reply("y<|im_end|>");
    let want = play.reply(&mut cut, &reply);
    play.drive(&mut cut, want);
    drop(cut);
    let state = play.session.state();
    let turns = play.turns();
    play.session = Session::replay(play.records()).unwrap();
    assert_eq!((play.session.state(), turns.len(), state.state), (state.clone(), 4, "open"));
}
