//! Documents name what is there, and what is there is named by documents.

use std::collections::BTreeSet;
use std::path::Path;

use rollgate_tests::program::workspace;

use crate::{none, project_files, rust_files, text_of};

fn read(path: &str) -> String {
    text_of(Path::new(path)).unwrap_or_else(|| panic!("{path} is not text"))
}

/// Targets of links, without what is outside.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

/// Words that are paths of this repository by their first part.
fn repository_paths(text: &str) -> Vec<String> {
    let mut top: BTreeSet<String> = BTreeSet::new();
    for path in project_files() {
        let mut parts = path.iter();
        let first = parts.next().map(|part| part.to_string_lossy().into_owned());
        top.extend(first.filter(|_| parts.next().is_some()));
    }
    let plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    let words = text.split(|c: char| !plain(c)).map(|word| word.trim_end_matches(['.', '/']));
    let ours =
        words.filter(|word| word.split_once('/').is_some_and(|(first, _)| top.contains(first)));
    // A histogram's lines end in these; its name is what is explained.
    let name = |word: &str| {
        let lines = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        lines.unwrap_or(word).to_owned()
    };
    ours.map(name).collect()
}

#[test]
fn every_path_named_in_the_readme_exists() {
    let readme = read("README.md");
    let mut named: BTreeSet<String> = repository_paths(&readme).into_iter().collect();
    named.extend(links(&readme).map(str::to_owned));
    assert!(named.len() > 10, "the map is gone: {named:?}");
    let lacking = named.into_iter().filter(|path| !workspace().join(path).exists());
    none("README names what is not there", &lacking.collect::<Vec<_>>());
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut lacking = Vec::new();
    for path in project_files() {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let folder = workspace().join(&path).parent().unwrap().to_owned();
        let text = text_of(&path).unwrap_or_default();
        let dead = links(&text).filter(|target| !folder.join(target).exists());
        lacking.extend(dead.map(|target| format!("{}: {target}", path.display())));
    }
    none("dead links", &lacking);
}

#[test]
fn every_limit_is_documented() {
    let source = syn::parse_file(&read("core/pipeline/src/limits.rs")).unwrap();
    let document = read("docs/configuration.md");
    let limits = source.items.iter().find_map(|item| match item {
        syn::Item::Struct(item) if item.ident == "Limits" => Some(item),
        _ => None,
    });
    let fields = limits.expect("limits.rs has the struct Limits").fields.iter();
    let names: Vec<_> =
        fields.filter_map(|field| field.ident.as_ref().map(ToString::to_string)).collect();
    assert!(names.len() >= 11, "{names:?}");
    let lacking = names.into_iter().filter(|name| !document.contains(&format!("`limits.{name}`")));
    none("limits that docs/configuration.md does not explain", &lacking.collect::<Vec<_>>());
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let source = read("core/controller/src/api/metrics.rs");
    let document = read("docs/metrics.md");
    let (made, told) = (metrics(&source), metrics(&document));
    assert!(made.len() >= 5, "{made:?}");
    let difference =
        |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    none("metrics that docs/metrics.md does not explain", &difference(&made, &told));
    none("metrics that docs/metrics.md has and the program has not", &difference(&told, &made));
}

/// Names that begin as our metrics do and are not crates.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let crates = ["pipeline", "shards", "harness", "backends", "controller", "bench", "tests"];
    let ours = words.filter(|word| {
        word.strip_prefix("rollgate_")
            .is_some_and(|rest| !rest.is_empty() && !crates.contains(&rest))
    });
    // The lines of a histogram end in these; its name is what is explained.
    let name = |word: &str| {
        let ends = ["_seconds_bucket", "_seconds_sum", "_seconds_count"];
        let histogram = ends.iter().find_map(|end| word.strip_suffix(end));
        histogram.map_or_else(|| word.to_owned(), |name| format!("{name}_seconds"))
    };
    ours.map(name).collect()
}

/// Lines of shell blocks of a document.
fn shell_lines(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let lines = blocks.flat_map(|(block, _)| block.lines());
    let commands = lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned());
    commands.filter(|line| !line.is_empty()).collect()
}

#[test]
fn ci_runs_the_readmes_test_command() {
    let commands = shell_lines(&read("README.md"));
    let command = commands.iter().find(|line| line.starts_with("tests/"));
    let command = command.expect("README has a command of tests/ that runs all tests");
    let ci = read(".ci/run");
    let calls = ci.lines().filter(|line| !line.trim_start().starts_with('#'));
    let calls = calls.filter(|line| line.contains(command.as_str())).count();
    assert!(calls > 0, ".ci/run does not call {command:?}");
    assert!(read(command).contains("cargo test --workspace"), "{command} runs all tests");
}

#[test]
fn no_source_is_without_a_reader() {
    // A file that no `mod` names is never compiled, so none of the checks above would mean anything.
    let files = rust_files();
    let texts: Vec<_> = files.iter().map(|(_, text)| text.as_str()).collect();
    let lonely = files.iter().filter_map(|(path, _)| {
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        let folder = path.parent()?.file_name()?.to_string_lossy().into_owned();
        let root = ["lib", "main", "build"].contains(&stem.as_str())
            || ["tests", "benches", "examples", "bin"].contains(&folder.as_str());
        let named = || texts.iter().any(|text| text.contains(&format!("mod {stem};")));
        (!root && !named()).then(|| path.display().to_string())
    });
    none("sources that no module includes", &lonely.collect::<Vec<_>>());
}

/// The page of failures names tests; each is there.
#[test]
fn tests_that_are_promised_against_failures_of_sandboxes_exist() {
    let page = read("docs/sandbox-failures.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(" | ")).count();
    assert_eq!(rows, 1 + 54, "a head and 54 rows");
    let sources: Vec<String> = rust_files().into_iter().map(|(_, text)| text).collect();
    let exists = |name: &str| sources.iter().any(|text| text.contains(&format!("fn {name}(")));
    let names = page.lines().filter(|line| line.starts_with("| ")).flat_map(|line| {
        line.split('`').enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, name)| name)
    });
    let lacking: Vec<String> = names.filter(|name| !exists(name)).map(str::to_owned).collect();
    none("tests that docs/sandbox-failures.md names, and that are not there", &lacking);
}
