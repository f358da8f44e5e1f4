//! The model's turn, read whole or folded from a stream.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value;

/// One turn of the model.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Reply {
    pub content: Option<String>,
    pub reasoning: Option<String>,
    pub tool_calls: Vec<ToolCall>,
}

/// One call in a turn; the arguments stay the text they are.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Why a reply cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    /// It broke off; the same request may fare better.
    Broken(String),
    /// It says that it failed, or makes no sense.
    Wrong(String),
}

/// Reads a reply that came in one piece.
pub(super) fn whole(body: &[u8]) -> Result<Reply, Unread> {
    let body: Body = serde_json::from_slice(body).map_err(|error| nonsense(&error))?;
    let choice = body.choices.into_iter().next();
    let message = choice.and_then(|choice| choice.message);
    let mut reply = Reply::default();
    fold(&mut reply, message.ok_or_else(|| Unread::Wrong("a reply without a message".to_owned()))?);
    Ok(reply)
}

/// Folds a stream of server-sent events.
pub(super) fn stream(lines: impl BufRead) -> Result<Reply, Unread> {
    let (mut reply, mut finished) = (Reply::default(), false);
    for line in lines.lines() {
        let line = line.map_err(|error| Unread::Broken(format!("the stream broke: {error}")))?;
        let Some(data) = line.strip_prefix("data:").map(str::trim_start) else { continue };
        if data == "[DONE]" {
            return Ok(reply);
        }
        let chunk: Body = serde_json::from_str(data).map_err(|error| nonsense(&error))?;
        if let Some(error) = chunk.error {
            return Err(Unread::Wrong(format!("the stream reports an error: {error}")));
        }
        for choice in chunk.choices {
            finished |= choice.finish_reason.is_some();
            fold(&mut reply, choice.delta.unwrap_or_default());
        }
    }
    if finished { Ok(reply) } else { Err(Unread::Broken("the stream ended early".to_owned())) }
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    choices: Vec<Choice>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
    delta: Option<Message>,
    finish_reason: Option<String>,
}

/// A message, or a piece of one.
#[derive(Deserialize, Default)]
struct Message {
    content: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    index: Option<usize>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

fn fold(reply: &mut Reply, piece: Message) {
    append(&mut reply.content, piece.content);
    append(&mut reply.reasoning, piece.reasoning_content);
    for (position, call) in piece.tool_calls.into_iter().flatten().enumerate() {
        let index = call.index.unwrap_or(position);
        if reply.tool_calls.len() <= index {
            reply.tool_calls.resize_with(reply.tool_calls.len() + 1, ToolCall::default);
        }
        let last = reply.tool_calls.len() - 1;
        let Some(known) = reply.tool_calls.get_mut(index.min(last)) else { continue };
        known.id.push_str(&call.id.unwrap_or_default());
        if let Some(function) = call.function {
            known.name.push_str(&function.name.unwrap_or_default());
            known.arguments.push_str(&function.arguments.unwrap_or_default());
        }
    }
}

fn append(to: &mut Option<String>, piece: Option<String>) {
    if let Some(piece) = piece {
        to.get_or_insert_default().push_str(&piece);
    }
}

fn nonsense(error: &serde_json::Error) -> Unread {
    Unread::Wrong(format!("the reply is not what Chat promises: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_stream_folds_into_what_one_piece_says() {
        let one = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ab",
            "reasoning_content":"hm","tool_calls":[
            {"id":"1","type":"function","function":{"name":"bash","arguments":"{\"a\":1}"}},
            {"id":"2","type":"function","function":{"name":"x","arguments":"{}"}}]},
            "finish_reason":"tool_calls"}]}"#;
        let many = ": comment\n\n\
            data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"h\"}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"m\",\"content\":\"a\"}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"content\":\"b\",\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"bash\",\"arguments\":\"\"}}]}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}},{\"index\":1,\"id\":\"2\",\"function\":{\"name\":\"x\",\"arguments\":\"{}\"}}]}}]}\n\n\
            data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
            data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n\
            data: [DONE]\n\n";
        let expected = Reply {
            content: Some("ab".to_owned()),
            reasoning: Some("hm".to_owned()),
            tool_calls: vec![call("1", "bash", "{\"a\":1}"), call("2", "x", "{}")],
        };
        assert_eq!(whole(one.as_bytes()), Ok(expected.clone()));
        assert_eq!(stream(many.as_bytes()), Ok(expected));
    }

    #[test]
    fn a_cut_stream_is_broken_and_a_reported_error_is_final() {
        let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        assert!(matches!(stream(cut.as_bytes()), Err(Unread::Broken(_))));
        let error = "data: {\"error\":{\"message\":\"no\"}}\n\n";
        assert!(
            matches!(stream(error.as_bytes()), Err(Unread::Wrong(text)) if text.contains("no"))
        );
        assert!(matches!(whole(b"{\"choices\":[]}"), Err(Unread::Wrong(_))));
        assert!(matches!(whole(b"<html>"), Err(Unread::Wrong(_))));
    }
}
