//! An agent that speaks Chat Completions, and plain HTTP calls.

use std::time::Duration;

use serde_json::{Value, json};

use crate::gate::Session;

/// One HTTP call on a connection of its own: status and body. The key, if any, is a bearer token.
pub fn send(method: &str, url: &str, key: Option<&str>, body: Option<&str>) -> (u16, String) {
    let bearer = key.map(|key| ("authorization", format!("Bearer {key}")));
    send_with(method, url, bearer.as_slice(), body)
}

/// The same with these headers.
pub fn send_with(
    method: &str,
    url: &str,
    headers: &[(&str, String)],
    body: Option<&str>,
) -> (u16, String) {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(300)))
        .build();
    let agent = ureq::Agent::new_with_config(config);
    let mut request = ureq::http::Request::builder().method(method).uri(url);
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(body.unwrap_or_default().to_owned()).expect("a well-formed request");
    let mut answer = agent.run(request).unwrap_or_else(|error| panic!("{method} {url}: {error}"));
    let status = answer.status().as_u16();
    let text = answer.body_mut().with_config().limit(1 << 30).read_to_string();
    (status, text.unwrap_or_else(|error| panic!("{method} {url}: {error}")))
}

/// The tool that every test offers.
pub fn bash_tool() -> Value {
    json!({"type": "function", "function": {
        "name": "bash",
        "description": "Run a command in a shell.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command."}},
            "required": ["command"],
        },
    }})
}

/// A conversation as an agent holds it.
#[derive(Clone, Debug)]
pub struct Chat {
    url: String,
    key: String,
    /// The messages so far, answers as they came.
    pub messages: Vec<Value>,
    /// The tools on offer.
    pub tools: Vec<Value>,
}

/// The first choice of a completion.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The message.
    pub message: Value,
    /// Why it ended.
    pub finish: String,
    /// The whole body.
    pub body: Value,
}

impl Answer {
    /// The tool calls, possibly none.
    pub fn calls(&self) -> &[Value] {
        self.message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
    }
}

impl Chat {
    /// A conversation with the bash tool and these first messages.
    pub fn new(session: &Session, messages: &[(&str, &str)]) -> Self {
        let messages = messages.iter().map(|(role, text)| json!({"role": role, "content": text}));
        Self {
            url: format!("{}/chat/completions", session.openai),
            key: session.key.clone(),
            messages: messages.collect(),
            tools: vec![bash_tool()],
        }
    }

    /// The same conversation, whose requests go to this scene's entry URL.
    #[must_use]
    pub fn in_scene(&self, scene: &str) -> Self {
        let url = self.url.replacen("/v1/", &format!("/scene/{scene}/v1/"), 1);
        assert_ne!(url, self.url, "no /v1/ in {url}");
        Self { url, ..self.clone() }
    }

    /// The body of the next request.
    pub fn body(&self) -> Value {
        json!({"model": "any", "messages": self.messages, "tools": self.tools})
    }

    /// Sends the conversation: status and body, nothing kept.
    pub fn post(&self) -> (u16, Value) {
        let (status, text) =
            send("POST", &self.url, Some(&self.key), Some(&self.body().to_string()));
        let body = serde_json::from_str(&text);
        (status, body.unwrap_or_else(|error| panic!("{status}: {error}: {text}")))
    }

    /// Sends the conversation and appends the answer, which must come.
    pub fn turn(&mut self) -> Answer {
        let (status, body) = self.post();
        assert_eq!(status, 200, "{body}");
        let choice = &body["choices"][0];
        let finish = choice["finish_reason"].as_str();
        let answer = Answer {
            message: choice["message"].clone(),
            finish: finish.unwrap_or_else(|| panic!("no finish_reason: {body}")).to_owned(),
            body,
        };
        self.messages.push(answer.message.clone());
        answer
    }

    /// Appends a result for each tool call of an answer.
    pub fn results(&mut self, answer: &Answer, text: &str) {
        assert!(!answer.calls().is_empty(), "no tool call to answer: {}", answer.body);
        for call in answer.calls() {
            let result = json!({"role": "tool", "tool_call_id": call["id"], "content": text});
            self.messages.push(result);
        }
    }

    /// Appends a user message.
    pub fn user(&mut self, text: &str) {
        self.messages.push(json!({"role": "user", "content": text}));
    }
}
