//! What the small files of a model directory say.

use serde_json::Value;

use super::model::{ModelError, ModelFiles};
use crate::id::TokenId;

/// The parts of `tokenizer_config.json`, `config.json` and `chat_template.jinja` that matter.
pub(super) struct Settings {
    /// The template's source, where there is one.
    pub template: Option<String>,
    /// `bos_token` and its like, as template variables.
    pub tokens: Vec<(String, String)>,
    /// Longest prompt plus answer.
    pub max_context: u32,
    /// The engine's vocabulary size, where `config.json` says it.
    pub vocab_size: Option<u32>,
    /// Ids that end a generation.
    pub ends: Vec<TokenId>,
    /// What a person should know, though it does not stop serving.
    pub notes: Vec<String>,
}

const TOKEN_NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

impl Settings {
    /// Reads them.
    pub fn read(files: &ModelFiles) -> Result<Self, ModelError> {
        let tokenizer_config = parse("tokenizer_config.json", &files.tokenizer_config)?;
        let optional = |name: &str, bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => parse(name, bytes),
            None => Ok(Value::Null),
        };
        let config = optional("config.json", &files.config)?;
        let generation_config = optional("generation_config.json", &files.generation_config)?;
        let mut notes = Vec::new();
        let template = match &files.template {
            Some(template) => Some(template.clone()),
            None => template_of(&tokenizer_config, &mut notes)?,
        };
        Ok(Self {
            template,
            tokens: TOKEN_NAMES
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), token_text(&tokenizer_config[name])?)))
                .collect(),
            max_context: max_context(files, &config, &tokenizer_config)?,
            vocab_size: number(&config, "vocab_size"),
            ends: [&generation_config, &config, &config["text_config"]]
                .into_iter()
                .flat_map(|config| ids(&config["eos_token_id"]))
                .collect(),
            notes,
        })
    }
}

fn parse(name: &str, bytes: &[u8]) -> Result<Value, ModelError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ModelError::Unusable(format!("{name} is not JSON: {error}")))
}

/// A token is given as its text or as an object with `content`.
fn token_text(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned)
}

/// One id or a list of them.
fn ids(value: &Value) -> Vec<TokenId> {
    let one = std::slice::from_ref(value);
    let all = value.as_array().map_or(one, Vec::as_slice);
    all.iter().filter_map(Value::as_u64).filter_map(|id| TokenId::try_from(id).ok()).collect()
}

/// One template, or a list of named ones of which `default` is served.
fn template_of(config: &Value, notes: &mut Vec<String>) -> Result<Option<String>, ModelError> {
    match &config["chat_template"] {
        Value::String(template) => Ok(Some(template.clone())),
        Value::Array(named) => {
            let mut default = None;
            for entry in named {
                match (entry["name"].as_str(), entry["template"].as_str()) {
                    (Some("default"), Some(template)) => default = Some(template.to_owned()),
                    (Some(name), Some(_)) => {
                        notes.push(format!("the chat template named {name:?} is not used"));
                    }
                    _ => {}
                }
            }
            let missing = || {
                ModelError::Unusable(
                    "the model has no chat template named \"default\": add a \
                     chat_template.jinja to the model directory"
                        .to_owned(),
                )
            };
            default.map(Some).ok_or_else(missing)
        }
        _ => Ok(None),
    }
}

/// A field of `config.json`, which models with several parts keep under `text_config`.
fn number(config: &Value, name: &str) -> Option<u32> {
    let found = config[name].as_u64().or_else(|| config["text_config"][name].as_u64());
    found.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
}

fn max_context(
    files: &ModelFiles,
    config: &Value,
    tokenizer_config: &Value,
) -> Result<u32, ModelError> {
    // Where no limit is known the file has a huge number, often 1e30.
    let from_tokenizer = || {
        tokenizer_config["model_max_length"]
            .as_f64()
            .filter(|length| (1.0..1e8).contains(length))
            .map(|length| length as u32)
    };
    files
        .max_context
        .or_else(|| number(config, "max_position_embeddings"))
        .or_else(from_tokenizer)
        .ok_or_else(|| {
            ModelError::Unusable(
                "the model's files do not say how long its context is: set max_context".to_owned(),
            )
        })
}
