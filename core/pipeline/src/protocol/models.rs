//! Lists of models, which name the one that is served. Some agents read its context from here.

use bytes::Bytes;
use serde::Serialize;

use super::json;

/// In OpenAI's shape.
pub(super) fn openai(name: &str, max_context: u32, one: bool) -> Bytes {
    #[derive(Serialize)]
    struct Model<'a> {
        id: &'a str,
        object: &'static str,
        created: u64,
        owned_by: &'static str,
        max_model_len: u32,
    }
    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: [Model<'a>; 1],
    }
    let model = Model {
        id: name,
        object: "model",
        created: 0,
        owned_by: "rollgate",
        max_model_len: max_context,
    };
    match one {
        true => written(&model),
        false => written(&List { object: "list", data: [model] }),
    }
}

/// In Anthropic's shape.
pub(super) fn anthropic(name: &str, max_context: u32, one: bool) -> Bytes {
    #[derive(Serialize)]
    struct Model<'a> {
        r#type: &'static str,
        id: &'a str,
        display_name: &'a str,
        created_at: &'static str,
        max_input_tokens: u32,
    }
    #[derive(Serialize)]
    struct List<'a> {
        data: [Model<'a>; 1],
        has_more: bool,
        first_id: &'a str,
        last_id: &'a str,
    }
    let model = Model {
        r#type: "model",
        id: name,
        display_name: name,
        created_at: "1970-01-01T00:00:00Z",
        max_input_tokens: max_context,
    };
    match one {
        true => written(&model),
        false => written(&List { data: [model], has_more: false, first_id: name, last_id: name }),
    }
}

fn written(body: &impl Serialize) -> Bytes {
    let mut out = Vec::new();
    json::write(&mut out, body);
    out.into()
}
