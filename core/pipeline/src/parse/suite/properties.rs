//! What holds for any output of any family.

use proptest::prelude::*;
use serde_json::json;

use super::dialects::ALL;
use super::{Dialect, WORDS, tools};
use crate::id::TokenId;
use crate::parse::Parsed;
use crate::parse::fake::{Case, Fake};

pub(super) fn run(dialect: &Dialect, fake: &Fake, ids: &[TokenId], stop: Option<&str>) -> Parsed {
    let Dialect { family, close, prompt, .. } = *dialect;
    Case { family, fake: fake.clone(), close, prompt, tools: &tools() }.run(fake, ids, stop)
}

/// Pieces from which interesting output of a family is made. Plain words are all different.
fn output() -> impl Strategy<Value = (Dialect, String)> {
    let picks = proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 0..12);
    (proptest::sample::select(ALL), picks).prop_map(|(dialect, picks)| {
        let mut text = String::new();
        for (at, (pick, kind)) in picks.into_iter().enumerate() {
            match kind {
                0..3 => text += dialect.added[pick.index(dialect.added.len())],
                3 => text.push_str(&dialect.call("f", json!({"s": format!("w{at}w")}))),
                4 => text.push_str(dialect.cut),
                5 => text += WORDS[pick.index(WORDS.len())],
                6 => text.push_str(&dialect.text(&format!("w{at}w"))),
                _ => text.push_str(&format!(" w{at}w ")),
            }
        }
        (dialect, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_cut_into_tokens_does_not_matter((dialect, output) in output(), cuts: [u16; 3]) {
        let fake = dialect.fake();
        let text = output.as_bytes();
        let parsed = run(&dialect, &fake, &fake.bytes(text), None);
        prop_assert_eq!(&run(&dialect, &fake, &fake.words(text), None), &parsed);
        let mut fake = dialect.fake();
        let cuts = cuts.map(|cut| usize::from(cut) % (text.len() + 1));
        let ids = fake.pieces(text, &cuts);
        prop_assert_eq!(&run(&dialect, &fake, &ids, None), &parsed);
    }

    /// Every word is reasoning, content or part of a call, in the reply or said to be missing.
    #[test]
    fn nothing_is_lost((dialect, output) in output()) {
        let fake = dialect.fake();
        let reply = run(&dialect, &fake, &fake.bytes(output.as_bytes()), None).reply;
        let excused = |remark: &String| remark == "text_after_end" || remark == "header_odd";
        let calls = reply.tool_calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
        let all: Vec<String> =
            calls.chain([reply.content]).chain(reply.reasoning).collect();
        for word in output.split(|c: char| !c.is_ascii_alphanumeric()) {
            let ours = word.starts_with('w') && word.ends_with('w') && word.len() > 2;
            let kept = all.iter().any(|text| text.contains(word));
            prop_assert!(
                !ours || kept || reply.remarks.iter().any(excused),
                "{word} of {output} in {all:?} {:?}", reply.remarks
            );
        }
    }

    #[test]
    fn any_ids_give_a_reply(
        dialect in proptest::sample::select(ALL),
        prompt in proptest::collection::vec(0_u32..290, 0..8),
        ids in proptest::collection::vec(prop_oneof![0_u32..290, 256_u32..280], 0..64),
        stop in proptest::option::of("[a-f}\"|>]{0,3}"),
    ) {
        let fake = dialect.fake();
        let markers = fake.markers(dialect.close);
        let setting = crate::parse::Setting {
            markers: &markers, tokenizer: &fake, prompt_tail: &prompt, tools: &tools(),
        };
        let mut machine = crate::parse::machine(dialect.family, setting);
        ids.iter().for_each(|&id| machine.push(id));
        let end = crate::parse::End { stop_text: stop.as_deref(), call_seed: "seed" };
        let reply = machine.finish(&end).reply;
        let longest = dialect.added.iter().map(|added| added.len()).max().unwrap_or(1).max(16);
        prop_assert!(reply.content.len() <= 3 * longest * (ids.len() + 1));
        for call in reply.tool_calls {
            prop_assert!(serde_json::from_str::<serde_json::Map<_, _>>(&call.arguments).is_ok());
        }
    }

    /// Without markers the content is the text.
    #[test]
    fn plain_text_is_content(
        dialect in proptest::sample::select(ALL),
        text in "[^~\\[{]{0,40}",
    ) {
        let output = dialect.text(&text);
        let fake = dialect.fake();
        // The text's bytes, however they look.
        let mut ids = fake.bytes(dialect.answer[0].as_bytes());
        ids.extend(text.bytes().map(TokenId::from));
        ids.extend(fake.bytes(dialect.answer[1].as_bytes()));
        prop_assert_eq!(run(&dialect, &fake, &ids, None).reply.content, text, "{}", output);
    }
}
