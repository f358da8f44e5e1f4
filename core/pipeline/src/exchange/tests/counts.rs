//! Counting tokens: the same numbers as real calls have, and nothing left behind.

use super::*;
use crate::record::Sealed;

fn input_tokens(answer: &str) -> u64 {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(head.contains("\r\nrequest-id: "), "{answer}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    body["input_tokens"].as_u64().unwrap()
}

impl Play {
    fn count(&mut self, body: &Value) -> String {
        self.path = "/v1/messages/count_tokens?beta=true".into();
        let (mut exchange, want) = self.begin(&body.to_string());
        assert!(matches!(want, Want::Agent(_)), "no engine is asked: {want:?}");
        let (answer, want) = self.drive(&mut exchange, want);
        assert!(matches!(want, Want::Done { keep_alive: true }), "{want:?}");
        assert!(exchange.passage().counted);
        answer
    }

    /// A real call with this body; its answer.
    fn message(&mut self, body: &Value, sampled: &str) -> Value {
        self.path = "/v1/messages?beta=true".into();
        let mut body = body.clone();
        body["max_tokens"] = 64.into();
        serde_json::from_str(&self.ask(&body, sampled).body).unwrap()
    }
}

/// Prompt tokens as the agent reads them.
fn prompt_of(answer: &Value) -> u64 {
    let usage = &answer["usage"];
    usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap_or(0)
}

/// Many tools, long instructions, an image, results.
fn large() -> Value {
    let tool = |n: usize| {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        json!({"name": format!("tool_{n}"), "description": "Does it.", "input_schema": schema})
    };
    let mut messages = vec![json!({"role": "user", "content": [
        {"type": "text", "text": "look at this"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]})];
    for n in 0..20 {
        let id = format!("toolu_{n}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": "tool_1", "input": {"path": format!("f{n}")}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": "some lines\n".repeat(9)}]}));
    }
    json!({"model": "m", "system": [{"type": "text", "text": "rules. ".repeat(700)}],
        "tools": (0..40).map(tool).collect::<Vec<_>>(), "messages": messages})
}

#[test]
fn a18_a_count_is_the_length_of_the_prompt() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
    let mut play = Play::new(SessionOptions::default());
    let counted = input_tokens(&play.count(&body));
    let prompt = play.ids("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(counted, prompt.len() as u64);
    assert_eq!(prompt_of(&play.message(&body, "a<|im_end|>")), counted);
}

#[test]
fn a19_a_count_is_exact_and_leaves_nothing_behind() {
    let body = large();
    let mut play = Play::new(SessionOptions::default());
    let before = play.journal.clone();
    let counted = input_tokens(&play.count(&body));
    assert_eq!((&play.journal, play.session.state().turns), (&before, 0), "nothing is recorded");
    assert_eq!(prompt_of(&play.message(&body, "a<|im_end|>")), counted);
    assert!(counted > 5_000, "{counted}");
}

#[test]
fn a19_a_count_goes_on_from_what_was_sampled() {
    let mut play = Play::new(SessionOptions::default());
    let question = json!({"role": "user", "content": "q"});
    let first = json!({"model": "m", "messages": [question]});
    // These ids are not what the tokenizer makes of the text: rendered anew, the count would differ.
    play.path = "/v1/messages".into();
    let mut asked = first.clone();
    asked["max_tokens"] = 64.into();
    let (mut exchange, _) = play.begin(&asked.to_string());
    let body = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "token_ids": [b't', b'h', b'e', play.ids("<|im_end|>")[0]],
        "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -0.5}, {"logprob": -0.5}, {"logprob": -0.5}]}}]});
    let want = play.reply(&mut exchange, &http_reply("200 OK", &body.to_string()));
    let (answer, _) = play.drive(&mut exchange, want);
    let (_, answer) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(answer).unwrap();
    drop(exchange);
    let next = json!({"model": "m", "messages": [
        question,
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": "r"},
    ]});
    let counted = input_tokens(&play.count(&next));
    let stretch = play.ids("\n<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n").len() as u64;
    assert_eq!(counted, prompt_of(&answer) + 4 + stretch);
    assert_eq!(input_tokens(&play.count(&next)), counted, "and again");
    assert_eq!(prompt_of(&play.message(&next, "b<|im_end|>")), counted);
    assert_eq!(play.turns()[1].parent, Some(crate::id::TurnIndex(0)));
}

#[test]
fn a_count_needs_no_budget_and_is_no_retry() {
    let limits = Budget { turns: Some(0), tokens: Some(0) };
    let mut play = Play::new(SessionOptions { limits, ..SessionOptions::default() });
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
    let all: Vec<_> = (0..25).map(|_| input_tokens(&play.count(&body))).collect();
    assert!(all.iter().all(|counted| *counted == all[0]), "{all:?}");
    assert!(play.session.tickets.is_empty());

    let mut play = Play::new(SessionOptions::default());
    let message = json!({"model": "m", "max_tokens": 9, "messages": body["messages"]});
    play.path = "/v1/messages".into();
    let (mut orphan, want) = play.begin(&message.to_string());
    assert!(matches!(want, Want::Engine(_)));
    play.gone(&mut orphan);
    input_tokens(&play.count(&message));
    assert!(!orphan.adopted(), "it does not wait for the answer of a call with the same body");
}

#[test]
fn a_count_that_cannot_be_made_is_refused() {
    let mut play = Play::new(SessionOptions::default());
    let answer = play.count(&json!({"model": "m", "messages": []}));
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_request_error"));
    let long =
        json!({"model": "m", "messages": [{"role": "user", "content": "x y ".repeat(9_000)}]});
    assert!(input_tokens(&play.count(&long)) > 32_768, "how far it is too long is told");
    play.session.apply(&Record::Sealed(Sealed { at_ms: 1 })).unwrap();
    play.path = "/v1/messages/count_tokens".into();
    let (mut exchange, want) = play.begin(&long.to_string());
    let (answer, _) = play.drive(&mut exchange, want);
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("permission_error"), "{answer}");
}

#[test]
fn a_refused_count_names_its_request() {
    let mut play = Play::new(SessionOptions::default());
    play.path = "/v1/messages/count_tokens".into();
    let body = json!({"model": "m", "messages": []}).to_string();
    let (mut exchange, want) = play.begin(&body);
    let (answer, _) = play.drive(&mut exchange, want);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("\r\nrequest-id: "), "{answer}");
}
