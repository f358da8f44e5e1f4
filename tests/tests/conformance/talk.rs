//! A conversation written in short.

use rollgate_pipeline::sample::{Sample, check};
use rollgate_tests::chat::{bash_tool, send};
use rollgate_tests::gate::Session;
use serde_json::{Value, json};

/// What an agent did with its session so far.
pub struct Talk {
    url: String,
    key: String,
    answers: Vec<Value>,
}

impl Talk {
    pub fn new(session: &Session) -> Self {
        Self {
            url: format!("{}/chat/completions", session.openai),
            key: session.key.clone(),
            answers: Vec::new(),
        }
    }

    /// Sends a request; its answer is the next `A`.
    pub fn ask(&mut self, request: &str) {
        let mut messages: Vec<Value> = Vec::new();
        for word in request.split(' ') {
            let message = self.message(word, &messages);
            messages.push(message);
        }
        let (status, text) = self.post(&messages);
        assert_eq!(status, 200, "{request}: {text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        self.answers.push(body["choices"][0]["message"].clone());
    }

    /// Sends a user message that the engine answers badly.
    pub fn refused(&self, user: &str) -> (u16, String) {
        self.post(&[json!({"role": "user", "content": user})])
    }

    /// Sends a request without messages.
    pub fn empty(&self) -> (u16, String) {
        self.post(&[])
    }

    fn post(&self, messages: &[Value]) -> (u16, String) {
        let body = json!({"model": "any", "messages": messages, "tools": [bash_tool()]});
        send("POST", &self.url, Some(&self.key), Some(&body.to_string()))
    }

    fn message(&self, word: &str, before: &[Value]) -> Value {
        let (kind, rest) = word.split_at(1);
        match kind {
            "S" => {
                json!({"role": "system", "content": format!("You work with care{}", tail(rest))})
            }
            "U" => json!({"role": "user", "content": user(rest)}),
            "F" => json!({"role": "assistant", "content": "Said by nobody here.",
                "tool_calls": [{"id": "call_foreign", "type": "function",
                    "function": {"name": "bash", "arguments": "{\"command\": \"f\"}"}}]}),
            "A" => self.answer(rest),
            "T" => result(rest, before),
            _ => panic!("{word} is no message"),
        }
    }

    /// `1` as it came, `1_` with white space, `1!` changed.
    fn answer(&self, rest: &str) -> Value {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let mut message = self.answers[number.parse::<usize>().unwrap() - 1].clone();
        let change = tail(&rest[number.len()..]);
        if !change.is_empty() {
            message["content"] = format!("{}{change}", message["content"].as_str().unwrap()).into();
        }
        message
    }

    /// Whether a sample is healthy, fully rewarded, and trains what it says it trains.
    pub fn bears_out(&self, sample: &Sample) -> bool {
        let context_is_zero = {
            let mut sampled = vec![false; sample.tokens.len()];
            for span in &sample.turns {
                sampled[span.start as usize..span.end as usize].fill(true);
            }
            sampled
                .iter()
                .zip(&sample.logprobs)
                .all(|(sampled, logprob)| *sampled || *logprob == 0.0)
        };
        check(sample).is_empty()
            && sample.health.reasons().is_empty()
            && sample.reward == Some(1.0)
            && sample.loss_mask.contains(&1)
            && context_is_zero
    }
}

fn tail(mark: &str) -> &str {
    match mark {
        "_" => " \n",
        "!" => " Or rather not!",
        "+" => " and speed",
        other => other,
    }
}

fn user(mark: &str) -> String {
    match mark {
        "w" => "Look in two ways".to_owned(),
        "n" => "Say nothing".to_owned(),
        other => format!("Do what is to be done{}", tail(other)),
    }
}

/// The result of a call of the last assistant message: `a` and `b` of the first and second, any other
/// mark is part of the text.
fn result(mark: &str, before: &[Value]) -> Value {
    let calls = before.iter().rev().find_map(|message| message["tool_calls"].as_array());
    let calls = calls.unwrap_or_else(|| panic!("no call to answer"));
    let place = usize::from(mark == "b");
    json!({"role": "tool", "tool_call_id": calls[place]["id"],
        "content": format!("what came of it: {}{}", place, tail(mark))})
}

/// `1{2}`: turns in order, trained ones in braces.
pub fn spans(sample: &Sample) -> String {
    let span = |span: &rollgate_pipeline::sample::SampledSpan| {
        let number = span.turn.0 + 1;
        match sample.loss_mask[span.start as usize] {
            1 => format!("{{{number}}}"),
            _ => number.to_string(),
        }
    };
    sample.turns.iter().map(span).collect()
}
