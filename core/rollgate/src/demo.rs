//! What `run --demo` runs on: a model's text side, a script, a task; all embedded.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rollgate_pipeline::render::{Model, ModelFiles};

/// Name of the embedded model.
pub const MODEL_NAME: &str = "rollgate-demo";

/// The task of the demonstration, in the form of a task file.
pub const TASK: &str = include_str!("../assets/demo/task.jsonl");

/// The embedded files by name.
const FILES: [(&str, &[u8]); 3] = [
    ("tokenizer.json", include_bytes!("../assets/demo/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../assets/demo/tokenizer_config.json")),
    ("config.json", include_bytes!("../assets/demo/config.json")),
];

/// Writes the embedded model as a model directory.
pub fn write(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    FILES.iter().try_for_each(|(name, bytes)| std::fs::write(directory.join(name), bytes))
}

/// The embedded tokenizer and template.
pub fn model() -> anyhow::Result<Arc<Model>> {
    with_context(None)
}

/// The same with a context of so many tokens instead of its own.
pub fn with_context(max_context: Option<u32>) -> anyhow::Result<Arc<Model>> {
    let [(_, tokenizer), (_, tokenizer_config), (_, config)] = FILES;
    let files = ModelFiles {
        name: MODEL_NAME.to_owned(),
        tokenizer: tokenizer.to_vec(),
        tokenizer_config: tokenizer_config.to_vec(),
        template: None,
        config: Some(config.to_vec()),
        generation_config: None,
        max_context,
        inject_engine: false,
    };
    Ok(Arc::new(Model::load(files).context("the embedded demo model cannot be loaded")?))
}
