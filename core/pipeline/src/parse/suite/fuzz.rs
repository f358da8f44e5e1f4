//! Anything as the output of a model, for every family: never a panic, and the cut does not matter.

use super::dialects::ALL;
use super::properties::run;
use crate::fuzz;

/// The first byte says which family.
#[test]
fn fuzz_outputs() {
    let words: Vec<&str> = ALL
        .iter()
        .flat_map(|dialect| dialect.added.iter().copied().chain([dialect.cut]))
        .chain(["{\"name\": \"f\", \"arguments\": {", "}}", "\n\n", "f", "\"", "\\", "\u{1f600}"])
        .collect();
    fuzz::run("outputs", &words, |input| {
        let Some((first, text)) = input.split_first() else { return };
        let dialect = &ALL[usize::from(*first) % ALL.len()];
        let fake = dialect.fake();
        let parsed = run(dialect, &fake, &fake.bytes(text), None);
        assert_eq!(run(dialect, &fake, &fake.words(text), None), parsed);
        let mut fake = dialect.fake();
        let ids = fake.pieces(text, &fuzz::cuts(text, 4));
        assert_eq!(run(dialect, &fake, &ids, None), parsed);
        for call in &parsed.reply.tool_calls {
            let read = serde_json::from_str::<serde_json::Map<_, _>>(&call.arguments);
            assert!(read.is_ok(), "{}", call.arguments);
        }
    });
}
