//! Reading a model directory.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rollgate_pipeline::render::{Model, ModelFiles};

/// The name a model gets when none is given: that of its directory.
pub fn name_of(dir: &Path) -> String {
    dir.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Reads and loads a model.
pub fn load(
    dir: &Path,
    name: &str,
    max_context: Option<u32>,
    inject_engine: bool,
) -> anyhow::Result<Arc<Model>> {
    let mut files = read(dir, name)?;
    files.max_context = max_context;
    files.inject_engine = inject_engine;
    let model = Model::load(files)
        .with_context(|| format!("the model in {} cannot be served", dir.display()))?;
    Ok(Arc::new(model))
}

fn read(dir: &Path, name: &str) -> anyhow::Result<ModelFiles> {
    if !dir.is_dir() {
        bail!(
            "model directory {} does not exist: point --model (or model.dir) at a directory with \
             tokenizer.json, tokenizer_config.json and config.json",
            dir.display()
        );
    }
    let required = |file: &str| {
        std::fs::read(dir.join(file)).with_context(|| {
            format!("model directory {}: {file} is missing or cannot be read", dir.display())
        })
    };
    let optional = |file: &str| match std::fs::read(dir.join(file)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("cannot read {file} of {}", dir.display()))
        }
    };
    Ok(ModelFiles {
        name: name.to_owned(),
        tokenizer: required("tokenizer.json")?,
        tokenizer_config: required("tokenizer_config.json")?,
        template: optional("chat_template.jinja")?
            .map(String::from_utf8)
            .transpose()
            .context("chat_template.jinja is not UTF-8")?,
        config: optional("config.json")?,
        max_context: None,
        inject_engine: false,
    })
}
