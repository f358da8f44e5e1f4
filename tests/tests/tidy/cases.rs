//! Every fault case that was promised a test has one, named by its id.

use std::collections::BTreeSet;

use crate::{none, rust_files};

/// Letter of an area, and how many cases it has: HTTP and SSE transport, JSON and Unicode, memory.
const AREAS: [(char, u32); 3] = [('l', 23), ('m', 6), ('n', 3)];

/// Where the letter `m` and a number name something else: how agents change their histories.
const OTHER_CASES: [&str; 4] = [
    "core/pipeline/src/trajectory/",
    "core/pipeline/src/sample/",
    "tests/src/corpus/",
    "shards/tests/gate/orphans.rs",
];

/// Ids at the beginning of a test's name: `l10_l11_what_it_shows` has two.
fn ids(name: &str) -> impl Iterator<Item = String> + '_ {
    let id = |word: &&str| {
        let mut chars = word.chars();
        chars.next().is_some_and(|first| first.is_ascii_lowercase())
            && word.len() == 3
            && chars.all(|digit| digit.is_ascii_digit())
    };
    name.split('_').take_while(id).map(str::to_owned)
}

/// Names of tests of a source.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    let marked = text.split("#[test]").skip(1);
    let named = marked.filter_map(|rest| rest.split_once("fn ").map(|(_, rest)| rest));
    named.filter_map(|rest| rest.split(['(', '<']).next())
}

#[test]
fn every_case_of_transport_json_and_memory_is_a_test() {
    let mut found = BTreeSet::new();
    for (path, text) in rust_files() {
        let path = path.to_string_lossy();
        if OTHER_CASES.iter().all(|other| !path.starts_with(other)) {
            found.extend(tests(&text).flat_map(ids));
        }
    }
    let all = AREAS
        .iter()
        .flat_map(|(area, count)| (1..=*count).map(move |number| format!("{area}{number:02}")));
    let lacking: Vec<String> = all.filter(|id| !found.contains(id)).collect();
    none("cases without a test", &lacking);
}

#[test]
fn ids_are_read_from_names() {
    let of = |name| ids(name).collect::<Vec<_>>();
    assert_eq!(of("l10_l11_lengths"), ["l10", "l11"]);
    assert_eq!(of("a_test_of_l10"), [""; 0]);
    let text =
        "#[test]\nfn l01_x() {}\nfn l02_y() {}\n    #[test]\n    #[ignore]\n    fn l03_z() {}";
    assert_eq!(tests(text).collect::<Vec<_>>(), ["l01_x", "l03_z"]);
}
