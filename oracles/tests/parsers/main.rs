//! Our parsers against public ones, over the table of good output.
//!
//! Equal means: the same calls, names and arguments as JSON values; the same reasoning and content
//! but for white space at their ends. Where the two differ the row is listed in `differences.rs`
//! with the reason; a difference that is not listed fails, and so does a listed one that is gone.

mod differences;
mod ours;
mod theirs;

use std::collections::BTreeSet;

use rollgate_pipeline::render::Family;
use serde::Deserialize;
use serde_json::Value;

/// The table of good output that our own tests use.
#[derive(Deserialize)]
struct Table {
    tools: Vec<Value>,
    families: Vec<Dialect>,
}

/// Output of one family in one of its forms.
#[derive(Deserialize)]
struct Dialect {
    family: String,
    form: String,
    close: String,
    added: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    /// The end of the prompt, where it opens a thought.
    #[serde(default)]
    prompt: String,
    output: String,
}

/// What a parser makes of an output.
#[derive(PartialEq, Debug)]
struct Reply {
    reasoning: String,
    content: String,
    calls: Vec<(String, Value)>,
}

impl Reply {
    fn new(reasoning: &str, content: &str, calls: Vec<(String, Value)>) -> Self {
        Self { reasoning: reasoning.trim().to_owned(), content: content.trim().to_owned(), calls }
    }
}

fn table() -> Table {
    let text = include_str!("../../../core/pipeline/src/parse/suite/good.json");
    serde_json::from_str(text).expect("the table is JSON")
}

fn family(name: &str) -> Family {
    match name {
        "Qwen3" => Family::Qwen3,
        "Qwen3Coder" => Family::Qwen3Coder,
        "DeepSeekV3" => Family::DeepSeekV3,
        "DeepSeekV31" => Family::DeepSeekV31,
        "Llama31" => Family::Llama31,
        "Harmony" => Family::Harmony,
        "Glm45" => Family::Glm45,
        "KimiK2" => Family::KimiK2,
        "MiniMaxM2" => Family::MiniMaxM2,
        "Mistral" => Family::Mistral,
        _ => panic!("a family that this test does not know: {name}"),
    }
}

#[test]
fn ours_agree_with_public_parsers() {
    let table = table();
    let (mut compared, mut differing, mut without) = (0, BTreeSet::new(), BTreeSet::new());
    for dialect in &table.families {
        let family = family(&dialect.family);
        let Some(mut parsers) = theirs::Parsers::of(family) else {
            without.insert(dialect.family.as_str());
            continue;
        };
        for row in &dialect.rows {
            let theirs = parsers.parse(row, &table.tools);
            let ours = ours::parse(family, dialect, row, &table.tools);
            compared += 1;
            if ours != theirs {
                let known = (dialect.family.as_str(), dialect.form.as_str(), row.name.as_str());
                println!("{known:?} {}\n  ours   {ours:?}\n  theirs {theirs:?}", row.output);
                differing.insert(known);
            }
        }
    }
    for listed in differences::LISTED {
        println!("{} {:?}: {}", listed.family, listed.form, listed.reason);
    }
    println!("{compared} rows compared, {} differ; no public parser: {without:?}", differing.len());
    assert_eq!(without, BTreeSet::from(["Harmony"]));
    let listed: BTreeSet<_> =
        differences::LISTED.iter().flat_map(differences::Difference::rows).collect();
    let new: Vec<_> = differing.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&differing).collect();
    assert!(new.is_empty() && gone.is_empty(), "not listed: {new:?}, listed but gone: {gone:?}");
}
