//! Ids and log-probabilities, from the engine's reply to the record. What a single reply may look
//! like is tested where it is read ([`crate::engine`]).

use super::*;

/// The engine's reply to `sampled` with these changes: a JSON pointer and its new value.
fn changed(play: &Play, sampled: &str, changes: &[(&str, Value)]) -> Vec<u8> {
    let reply = String::from_utf8(play.engine_reply(sampled)).unwrap();
    let mut body: Value = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
    for (pointer, value) in changes {
        *body.pointer_mut(pointer).unwrap() = value.clone();
    }
    http_reply("200 OK", &body.to_string())
}

#[test]
fn i01_i02_i05_i08_a_reply_that_lacks_ids_or_log_probabilities_is_no_turn() {
    let mut play = Play::new(SessionOptions::default());
    let entry = |id: u32| json!({"token_id": id, "logprob": -0.5});
    let cases = [
        [("/choices/0/token_ids", json!(null))],
        [("/choices/0/token_ids", json!([97, 98]))],
        [("/choices/0/logprobs", json!(null))],
        [("/choices/0/logprobs/content", json!([entry(97), entry(98), entry(99)]))],
        [("/usage/completion_tokens", json!(5))],
        [("/choices/0/weight_versions", json!([{"version": "w", "start": 0, "end": 3}]))],
    ];
    for change in cases {
        let (mut exchange, _) =
            play.begin(&chat(json!([{"role": "user", "content": "q"}])).to_string());
        let reply = changed(&play, "abcd", &change);
        let want = play.reply(&mut exchange, &reply);
        let (given, _) = play.drive(&mut exchange, want);
        assert!(given.starts_with("HTTP/1.1 502"), "{change:?}: {given}");
        assert_eq!(play.session.state().last_fault, Some("engine_bad_reply"), "{change:?}");
    }
    assert_eq!(play.turns().len(), 0);
}

#[test]
fn i03_the_recorded_prompt_is_what_was_sent() {
    let mut play = Play::new(SessionOptions::default());
    // The reply says nothing of the prompt: what was sent is known here.
    let seen = play.ask(&chat(json!([{"role": "user", "content": "q"}])), "a<|im_end|>");
    let turn = play.turns().remove(0);
    assert!(!turn.stretch.is_empty());
    assert_eq!((turn.usage.prompt_tokens as usize, turn.stretch), (seen.prompt.len(), seen.prompt));
}

#[test]
fn i06_json_and_events_record_the_same() {
    let record = |stream: bool| {
        let mut play = Play::new(SessionOptions::default());
        let mut request = chat(json!([{"role": "user", "content": "q"}]));
        request["stream"] = stream.into();
        play.ask(&request, "ab\n<tool_call>\n{}\n</tool_call><|im_end|>");
        let mut turn = play.turns().remove(0);
        turn.times = Default::default();
        turn
    };
    assert_eq!(record(false), record(true));
}

#[test]
fn i07_what_says_nothing_is_a_turn_and_is_gone_on_from() {
    for (sampled, repaired) in [("", "<|im_end|>"), ("<|im_end|>", "")] {
        let mut play = Play::new(SessionOptions::default());
        let first = play.ask(&chat(json!([{"role": "user", "content": "q"}])), sampled);
        assert_eq!(first.status, 200, "{}", first.body);
        let second = chat(json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "r"},
        ]));
        let second = play.ask(&second, "b<|im_end|>");
        let rest = "\n<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n";
        let rest = play.ids(&format!("{sampled}{repaired}{rest}"));
        assert_eq!(second.prompt, [first.prompt, rest].concat(), "{sampled:?}");
        assert_eq!(play.turns()[1].parent, Some(crate::id::TurnIndex(0)));
    }
}
