//! Calls that are made again.

use super::*;

/// A session whose calls may be made again twice.
fn play() -> Play {
    let limits = Limits { engine_retries: 2, engine_ms: 60_000, ..Limits::default() };
    Play::at(Gatehouse { limits, ..Play::gatehouse() }, SessionOptions::default())
}

fn begin(play: &mut Play) -> (Exchange, Value) {
    let request = chat(json!([{"role": "user", "content": "q"}])).to_string();
    let (exchange, want) = play.begin(&request);
    let body = call(&want).1;
    (exchange, body)
}

/// Replies and whether the call is made again after them.
fn replies(play: &Play) -> Vec<(&'static str, Vec<u8>, bool)> {
    let whole = String::from_utf8(play.engine_reply("a<|im_end|>")).unwrap();
    let odd = whole.replacen("\"logprob\":-0.5", "\"logprob\":-0.x", 1).into_bytes();
    let later =
        |s: u32| format!("HTTP/1.1 503 Busy\r\nretry-after: {s}\r\ncontent-length: 1\r\n\r\nx");
    vec![
        ("odd JSON", odd, true),
        ("no JSON", http_reply("200 OK", "<html>"), true),
        ("no HTTP", b"HTTP/1.1 200 OK\nx: y\r\n\r\n".to_vec(), true),
        ("broken", http_reply("500 Error", "x"), true),
        ("a proxy's", http_reply("502 Bad", "x"), true),
        ("busy", http_reply("503 Busy", "x"), true),
        ("limited", http_reply("429 Slow", "x"), true),
        ("busy for a moment", later(2).into_bytes(), true),
        ("busy for long", later(3).into_bytes(), false),
        ("refused", http_reply("400 Bad", "x"), false),
        ("unknown", http_reply("404 Not", "x"), false),
        ("denied", http_reply("401 No", "x"), false),
        ("a proxy's timeout", http_reply("504 Late", "x"), false),
    ]
}

#[test]
fn k06_l01_what_came_to_nothing_is_asked_again_under_another_id_and_recorded_once() {
    let all = replies(&play());
    for (what, reply, again) in all {
        let mut play = play();
        let (mut exchange, first) = begin(&mut play);
        let want = play.reply(&mut exchange, &reply);
        assert!(exchange.reply_fault().is_some() && exchange.reply_fault().is_none(), "{what}");
        if !again {
            let (answer, want) = play.drive(&mut exchange, want);
            assert!(matches!(want, Want::Done { .. }), "{what}: {answer}");
            continue;
        }
        let (prompt, second) = call(&want);
        assert_eq!(json!(prompt), first["token_ids"], "{what}");
        assert_ne!(second["request_id"], first["request_id"], "{what}");
        let reply = play.engine_reply("answer<|im_end|>");
        let want = play.reply(&mut exchange, &reply);
        let (answer, _) = play.drive(&mut exchange, want);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("answer"), "{what}");
        assert_eq!(play.turns().len(), 1, "{what}");
        assert_eq!(play.session.state().last_fault, None, "{what}");
    }
}

#[test]
fn a_reply_that_is_cut_anywhere_is_asked_again() {
    let reply = play().engine_reply("a<|im_end|>");
    for cut in 0..reply.len() {
        let mut play = play();
        let (mut exchange, _) = begin(&mut play);
        let mut bytes = BytesMut::from(&reply[..cut]);
        let want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, true));
        assert!(matches!(want, Want::Engine(_)), "{cut}: {want:?}");
        assert!(!exchange.engine_reusable() && !exchange.engine_started(), "{cut}");
    }
}

#[test]
fn tries_are_bounded_by_number_and_time() {
    let down = Fault::new(FaultKind::EngineDown, "refused");
    let mut play = play();
    let (mut exchange, _) = begin(&mut play);
    for _ in 0..2 {
        let want = play.step(|cx| exchange.engine_failed(cx, &down));
        assert!(matches!(want, Want::Engine(_)), "{want:?}");
    }
    let want = play.step(|cx| exchange.engine_failed(cx, &down));
    let (answer, _) = play.drive(&mut exchange, want);
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let (mut exchange, _) = begin(&mut play);
    play.clock_ms += 60_000;
    let want = play.step(|cx| exchange.engine_failed(cx, &down));
    assert!(matches!(want, Want::Agent(_)), "the turn's time is over: {want:?}");
}

#[test]
fn l15_nobody_asks_again_for_an_agent_that_left() {
    let mut play = play();
    let (mut exchange, _) = begin(&mut play);
    play.gone(&mut exchange);
    let want = play.reply(&mut exchange, &http_reply("503 Busy", "x"));
    let (_, want) = play.drive(&mut exchange, want);
    assert!(matches!(want, Want::Done { .. }), "{want:?}");
}

#[test]
fn what_was_sampled_before_a_pause_outlives_an_engine() {
    let mut play = play();
    let (mut exchange, _) = begin(&mut play);
    let part = play.engine_part("par", "abort", "w1");
    let want = play.reply(&mut exchange, &part);
    assert!(matches!(want, Want::Wait { .. }), "{want:?}");
    play.clock_ms += 10_000;
    let want = play.woken(&mut exchange);
    let (prompt, _) = call(&want);
    let want = play.reply(&mut exchange, &http_reply("500 Error", "x"));
    assert_eq!(call(&want).0, prompt, "the rest is asked for again");
    let rest = play.engine_part("t<|im_end|>", "stop", "w2");
    let want = play.reply(&mut exchange, &rest);
    play.drive(&mut exchange, want);
    assert_eq!(play.turns()[0].ids, play.ids("part<|im_end|>"));
}

#[test]
fn the_wait_for_a_turn_is_told_apart_from_the_engines_part() {
    let mut play = play();
    let (mut exchange, _) = begin(&mut play);
    play.clock_ms += 1_000;
    exchange.queued(400);
    let reply = play.engine_reply("a<|im_end|>");
    let want = play.reply(&mut exchange, &reply);
    play.drive(&mut exchange, want);
    let times = play.turns()[0].times;
    assert_eq!(times.queue_ms, 400);
    assert!((600..700).contains(&times.engine_ms), "{times:?}");
}
