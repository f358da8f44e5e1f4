//! The real tokenizers of four families, where a directory with them is at hand.
//!
//! `ROLLGATE_FAMILIES_DIR` names a directory with one folder per model (`qwen3`, `deepseek_v3`,
//! `llama31`, `gpt_oss`), laid out by `tests/real/prepare.sh`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests read the models' files and say what they skip"
)]

use std::path::PathBuf;

use rollgate_pipeline::render::{Family, Model, ModelFiles, TemplateClass, check_bridges};

const MODELS: [(&str, Family, TemplateClass); 4] = [
    ("qwen3", Family::Qwen3, TemplateClass::AppendOnlyInToolCycle),
    ("deepseek_v3", Family::DeepSeekV3, TemplateClass::AppendOnly),
    ("llama31", Family::Llama31, TemplateClass::AppendOnly),
    ("gpt_oss", Family::Harmony, TemplateClass::AppendOnlyInToolCycle),
];

/// The directory, or `None` after saying why the test does nothing.
fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("ROLLGATE_FAMILIES_DIR").map(PathBuf::from);
    if directory.is_none() {
        println!("skipped: ROLLGATE_FAMILIES_DIR names no directory with tokenizers");
    }
    directory
}

fn files(directory: PathBuf) -> ModelFiles {
    let optional = |name: &str| std::fs::read(directory.join(name)).ok();
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
    ModelFiles {
        name: "family".to_owned(),
        tokenizer: read("tokenizer.json"),
        tokenizer_config: read("tokenizer_config.json"),
        template: optional("chat_template.jinja").map(|text| String::from_utf8(text).unwrap()),
        config: optional("config.json"),
        generation_config: optional("generation_config.json"),
        ..ModelFiles::default()
    }
}

#[test]
fn real_tokenizers_are_served_classified_and_continued_exactly() {
    let Some(directory) = directory() else { return };
    for (name, family, class) in MODELS {
        let model = Model::load(files(directory.join(name))).unwrap();
        let report = model.report();
        println!("{name}: {report:#?}");
        assert_eq!((model.family, model.class), (family, class), "{report:#?}");
        let compared = check_bridges(&model).unwrap_or_else(|found| panic!("{name}: {found:#?}"));
        println!("{name}: {compared:?}");
        assert!(compared.prompts >= 12, "{name}: {compared:?}");
    }
}

#[cfg(feature = "oracle")]
#[test]
fn real_tokenizers_agree_with_the_reference() {
    use rollgate_pipeline::render::{FastTokenizer, OracleTokenizer, check_against};
    let Some(directory) = directory() else { return };
    for (name, _, _) in MODELS {
        let raw = std::fs::read(directory.join(name).join("tokenizer.json")).unwrap();
        let served = FastTokenizer::load(&raw).unwrap_or_else(|why| panic!("{name}: {why}"));
        let reference = OracleTokenizer::load(&raw).unwrap_or_else(|why| panic!("{name}: {why}"));
        check_against(&served, &reference).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
