//! The table of good output. Other crates read it too, to compare parsers.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::valued;
use crate::parse::fake::{Case, Fake};
use crate::render::Family;

#[derive(Deserialize)]
struct Table {
    tools: Vec<Value>,
    families: Vec<Dialect>,
}

#[derive(Deserialize)]
struct Dialect {
    family: String,
    close: String,
    added: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    #[serde(default)]
    prompt: String,
    output: String,
    reasoning: Option<String>,
    content: String,
    calls: Vec<(String, Map<String, Value>)>,
}

#[test]
fn good_output_of_every_family() {
    let table: Table = serde_json::from_str(include_str!("good.json")).unwrap();
    let families = [
        Family::Qwen3,
        Family::Qwen3Coder,
        Family::DeepSeekV3,
        Family::DeepSeekV31,
        Family::Llama31,
        Family::Harmony,
        Family::Glm45,
        Family::KimiK2,
        Family::MiniMaxM2,
        Family::Mistral,
    ];
    for family in families {
        let of_family = |dialect: &&Dialect| dialect.family == format!("{family:?}");
        let dialects: Vec<&Dialect> = table.families.iter().filter(of_family).collect();
        assert!(!dialects.is_empty(), "{family:?} has no table");
        for (dialect, row) in dialects.iter().flat_map(|d| d.rows.iter().map(move |r| (d, r))) {
            let added: Vec<&str> = dialect.added.iter().map(String::as_str).collect();
            let parsed = Case {
                family,
                fake: Fake::new(&added, &super::WORDS),
                close: &dialect.close,
                prompt: &row.prompt,
                tools: &table.tools,
            }
            .every_cut(&row.output);
            let calls = row.calls.iter().map(|(n, a)| (n.clone(), Value::Object(a.clone())));
            let expected = (row.reasoning.clone(), row.content.clone(), calls.collect::<Vec<_>>());
            let reply = &parsed.reply;
            let got = (reply.reasoning.clone(), reply.content.clone(), valued(&parsed));
            assert_eq!(got, expected, "{family:?}, {}: {}", row.name, row.output);
            assert!(!reply.ill_formed, "{family:?}, {}: {:?}", row.name, reply.remarks);
        }
    }
}
