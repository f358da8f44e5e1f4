//! Reading a model directory.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rollgate_pipeline::render::{Model, ModelFiles, OracleTokenizer, check_against};

/// Digests of tokenizers that were compared with the reference tokenizer before: the demo model's,
/// and those of Qwen3, DeepSeek V3, Llama 3.1 and gpt-oss as transformers converts them.
const COMPARED: [&str; 5] = [
    "5a05a8556f3235f2d9d7c8029b062a6647f2eb9e73d279486c3a33a9fff3d1c9",
    "b0cb923fc505fdf0a53f0287654fa26577d3f333d4134350da0a97664b228739",
    "81fcbc9ddcf24735eb45d31d5d38821e0820750b3ec376a4e00415ed69d37b1e",
    "174e70b51765e4514178cbae91eb5e54975cfdf3946427a75b8cba4954de898e",
    "0596814de1ca4de2980968802fdb4340e84e39f8ffa67467648e8e606680acb1",
];

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
    let raw = files.tokenizer.clone();
    let refused = || format!("the model in {} cannot be served", dir.display());
    let model = Model::load(files).with_context(refused)?;
    compare(&model, &raw).with_context(refused)?;
    Ok(Arc::new(model))
}

/// The fast tokenizer must agree with the reference one, on a corpus, before it serves.
fn compare(model: &Model, raw: &[u8]) -> anyhow::Result<()> {
    if COMPARED.contains(&model.tokenizer_digest.as_str()) {
        return Ok(());
    }
    let compared = OracleTokenizer::load(raw)
        .and_then(|reference| check_against(&*model.tokenizer, &reference));
    compared.map_err(|difference| {
        anyhow::anyhow!(
            "tokenizer.json is not encoded as the reference tokenizer does: {difference}. Samples \
             would not be exact; please report it with the model's name"
        )
    })
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
        generation_config: optional("generation_config.json")?,
        max_context: None,
        inject_engine: false,
    })
}
