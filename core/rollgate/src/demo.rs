//! What `run --demo` runs on: a model's text side, a script, a task; all embedded.

use std::sync::Arc;

use anyhow::Context as _;
use rollgate_pipeline::render::{Model, ModelFiles};

/// Name of the embedded model.
pub const MODEL_NAME: &str = "rollgate-demo";

/// The task of the demonstration, in the form of a task file.
pub const TASK: &str = include_str!("../assets/demo/task.jsonl");

/// The embedded tokenizer and template.
pub fn model() -> anyhow::Result<Arc<Model>> {
    with_context(None)
}

/// The same with a context of so many tokens instead of its own.
pub fn with_context(max_context: Option<u32>) -> anyhow::Result<Arc<Model>> {
    let files = ModelFiles {
        name: MODEL_NAME.to_owned(),
        tokenizer: include_bytes!("../assets/demo/tokenizer.json").to_vec(),
        tokenizer_config: include_bytes!("../assets/demo/tokenizer_config.json").to_vec(),
        template: None,
        config: Some(include_bytes!("../assets/demo/config.json").to_vec()),
        generation_config: None,
        max_context,
        inject_engine: false,
    };
    Ok(Arc::new(Model::load(files).context("the embedded demo model cannot be loaded")?))
}
