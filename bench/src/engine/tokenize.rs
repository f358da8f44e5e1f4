//! vLLM's `/tokenize`: ids of a text or of a conversation, by the served model itself.

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::{ControlText, Model};
use rollgate_pipeline::turn::{Message, MessageFields, Role, Tool, ToolCall};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A request; what is not named here is ignored, as the real engine does.
#[derive(Deserialize)]
pub(super) struct Tokenize {
    prompt: Option<String>,
    messages: Option<Vec<Spoken>>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    chat_template_kwargs: Option<Map<String, Value>>,
    #[serde(default)]
    add_generation_prompt: Option<bool>,
}

/// A message in OpenAI's form.
#[derive(Deserialize)]
struct Spoken {
    role: Role,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default, alias = "reasoning_content")]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Called>>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: String,
}

#[derive(Deserialize)]
struct Called {
    #[serde(default)]
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

impl Tokenize {
    /// The ids, or why there are none.
    pub(super) fn ids(self, model: &Model) -> Result<Vec<TokenId>, String> {
        match (self.prompt, self.messages) {
            (Some(prompt), None) => {
                let mut ids = Vec::new();
                model.tokenizer.encode(&prompt, ControlText::Match, &mut ids)?;
                Ok(ids)
            }
            (None, Some(_)) if self.add_generation_prompt == Some(false) => {
                Err("the scripted engine always adds the generation prompt".to_owned())
            }
            (None, Some(messages)) => {
                let messages: Vec<Message> = messages.into_iter().map(Message::from).collect();
                let tools = self.tools.unwrap_or_default();
                let kwargs = self.chat_template_kwargs.unwrap_or_default();
                model.first(&messages, &tools, &kwargs).map_err(|fault| fault.message)
            }
            _ => Err("give either `prompt` or `messages`".to_owned()),
        }
    }
}

impl From<Spoken> for Message {
    fn from(spoken: Spoken) -> Self {
        let content = match spoken.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => parts.into_iter().map(|part| part.text).collect(),
        };
        let calls = spoken.tool_calls.unwrap_or_default().into_iter().map(|call| ToolCall {
            id: call.id,
            name: call.function.name,
            arguments: call.function.arguments,
        });
        MessageFields {
            reasoning: spoken.reasoning,
            tool_calls: calls.collect(),
            tool_call_id: spoken.tool_call_id,
            ..MessageFields::text(spoken.role, content)
        }
        .into()
    }
}
