//! `rollgate model check` on real tokenizers, and on templates that are hostile on purpose.

use std::path::{Path, PathBuf};

use rollgate_tests::program;
use serde_json::Value;

/// The demo model with this template, in a folder of that name.
fn with_template(directory: &Path, name: &str) -> PathBuf {
    let model = directory.join(name);
    std::fs::create_dir(&model).unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json", "config.json"] {
        std::fs::copy(program::demo_model().join(file), model.join(file)).unwrap();
    }
    let templates = program::workspace().join("core/pipeline/tests/templates/hostile");
    std::fs::copy(templates.join(format!("{name}.jinja")), model.join("chat_template.jinja"))
        .unwrap();
    model
}

fn check(model: &Path) -> (Option<i32>, Value) {
    let ended = program::run(model, &["model", "check", &model.display().to_string(), "--json"]);
    let report = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("no report ({error}): {ended:#?}"));
    (ended.code, report)
}

#[test]
fn hostile_templates_are_named_with_a_counterexample() {
    let directory = tempfile::tempdir().unwrap();
    let rows = [
        ("numbers_turns", "rewrites_history", "not the beginning of the longer one"),
        ("counts_turns", "rewrites_history", "by themselves"),
        ("drops_thinking", "rewrites_history", "reasoning that was sampled"),
        ("merges_results", "rewrites_history", "not the beginning of the longer one"),
        ("prints_dates", "append_only", ""),
        ("refuses_system", "append_only", ""),
        ("hoists_system", "append_only", ""),
    ];
    for (name, class, what) in rows {
        let (code, report) = check(&with_template(directory.path(), name));
        assert_eq!((code, report["class"].as_str()), (Some(0), Some(class)), "{report:#}");
        let found = &report["counterexample"];
        assert_eq!(found.is_null(), what.is_empty(), "{report:#}");
        if !what.is_empty() {
            assert!(found["what"].as_str().unwrap().contains(what), "{report:#}");
            assert_ne!(found["expected"], found["got"], "{report:#}");
            assert!(found["messages"].as_str().unwrap().contains("then:"), "{report:#}");
        }
    }
}

#[test]
fn what_is_not_supported_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    for (name, why) in [("silent", "leaves out"), ("plain_ends", "no added token ends")] {
        let model = with_template(directory.path(), name);
        let (code, report) = check(&model);
        assert_eq!((code, report["class"].as_str()), (Some(2), Some("unsupported")), "{report:#}");
        assert!(report["reason"].as_str().unwrap().contains(why), "{report:#}");
        let ended = program::run(directory.path(), &["model", "check", name]);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stdout.starts_with(&format!("{name}: unsupported\n")), "{ended:#?}");
        assert!(ended.stdout.contains(why), "{ended:#?}");
    }
    let ended = program::run(directory.path(), &["model", "check", "nowhere"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("no such directory"), "{ended:#?}");
}

#[test]
fn a_person_reads_what_is_found() {
    let directory = tempfile::tempdir().unwrap();
    with_template(directory.path(), "numbers_turns");
    let ended = program::run(directory.path(), &["model", "check", "numbers_turns"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for line in [
        "numbers_turns: served\n",
        "\nclass             rewrites_history: every turn is rendered whole",
        "\nfamily            qwen3, parser qwen3/1\n",
        "\nturn ends with    <|im_end|> (",
        "\nfirst counterexample\n  messages  user, assistant (call); then: tool\n",
    ] {
        assert!(ended.stdout.contains(line), "{line:?} in {}", ended.stdout);
    }
    let help = program::run(directory.path(), &["model", "check", "--help"]);
    assert!(help.stdout.contains("Example:\n  rollgate model check"), "{help:#?}");
}

#[test]
fn real_families_get_their_class() {
    let Some(families) = std::env::var_os("ROLLGATE_FAMILIES_DIR").map(PathBuf::from) else {
        eprintln!("left out: ROLLGATE_FAMILIES_DIR is not set; run tests/real/prepare.sh");
        return;
    };
    let rows = [
        ("qwen3", "qwen3", "append_only_in_tool_cycle", "<|im_end|>"),
        ("deepseek_v3", "deepseek_v3", "append_only", "<｜end▁of▁sentence｜>"),
        ("llama31", "llama3.1", "append_only", "<|eot_id|>"),
        ("gpt_oss", "harmony", "append_only_in_tool_cycle", "<|end|>"),
    ];
    for (name, family, class, close) in rows {
        let (code, report) = check(&families.join(name));
        assert_eq!(code, Some(0), "{report:#}");
        assert_eq!(report["family"], family, "{report:#}");
        assert_eq!(report["class"], class, "{report:#}");
        assert_eq!(report["close"]["text"], close, "{report:#}");
        let in_cycle = class == "append_only_in_tool_cycle";
        assert_eq!(report["counterexample"].is_null(), !in_cycle, "{report:#}");
        assert!(report["continued"]["compared"].as_u64() > Some(12), "{report:#}");
    }
}
