//! Whatever agents change from request to request.

use proptest::prelude::*;

use super::talks::{Dice, Talk, X};
use super::*;
use crate::turn::{Message, ToolCall};

fn reply() -> Reply {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "f".to_owned(),
        arguments: arguments.to_owned(),
    };
    Reply {
        reasoning: Some("thought of it".to_owned()),
        content: "said".to_owned(),
        tool_calls: vec![call("c0", "{\"a\": 1}"), call("c1", "{}")],
        ill_formed: false,
        remarks: Vec::new(),
    }
}

/// One more mistake somewhere.
fn damaged(body: &str, dice: &mut Dice) -> Vec<u8> {
    let mut body = body.as_bytes().to_vec();
    // Mostly at the end, where what is not known is.
    let from = if dice.roll(3) == 0 { 0 } else { body.len().saturating_sub(300) };
    let at = from + dice.roll(body.len() - from);
    match dice.roll(4) {
        0 => body.truncate(at),
        1 => body.insert(at, dice.pick(b"\"\\{}[],:x\n\xFF")),
        2 => drop(body.remove(at)),
        _ => body[at] = dice.pick(b"\"\\{}[],:1\x01\xC3"),
    }
    body
}

/// How many messages the first so many entries surely are.
fn settled(reader: &Reader, talk: &Talk, entries: usize) -> usize {
    let Ok(asked) = reader.whole(talk.first(entries).body().as_bytes()) else { return 0 };
    // More may be said in the last one of these.
    let open = usize::from(reader.dialect == Dialect::Responses);
    asked.messages.len().saturating_sub(2 * open)
}

struct Last {
    talk: Talk,
    messages: Vec<Message>,
}

fn check_copies(reader: &Reader, last: &Last, talk: &Talk, messages: &[Message]) {
    let same_frame = ["tools", "system", "instructions", "tool_choice"]
        .iter()
        .all(|name| last.talk.member(name) == talk.member(name));
    let refers = |value: &str| value.contains("tool_reference");
    if !same_frame || talk.member("system").is_some_and(refers) {
        return;
    }
    let pairs = talk.entries.iter().zip(&last.talk.entries);
    let same = pairs.take_while(|(one, other)| one == other).count();
    let count = settled(reader, talk, same).min(settled(reader, &last.talk, same));
    for (at, (now, before)) in messages.iter().zip(&last.messages).take(count).enumerate() {
        assert!(now.is_copy_of(before) || now != before, "message {at} was read again");
    }
}

fn play(dialect: Dialect, seed: u64) {
    let mut dice = Dice(seed | 1);
    let mut reader = Reader::new(dialect);
    if dice.roll(2) == 0 {
        reader.past.0.insert(X.to_owned(), Rc::new(reply()));
    }
    let mut talk = Talk::new(dialect, &mut dice);
    let mut last: Option<Last> = None;
    for _ in 0..14 {
        talk.go_on(&mut dice);
        if dice.roll(10) == 0 {
            reader.past.0.insert(X.to_owned(), Rc::new(reply()));
        }
        let body = talk.body();
        let cuts = [1 + dice.roll(9_000), 1 + dice.roll(300), 1 + dice.roll(70_000)];
        let chunked = dice.roll(4) == 0;
        if dice.roll(4) == 0 {
            let body = damaged(&body, &mut dice);
            let got = reader.read_cut(&body, &cuts, chunked).asked;
            let whole = reader.whole(&body);
            assert_eq!(got, whole, "damaged: {}", String::from_utf8_lossy(&body));
            // What can be read all the same may take the place of the last one.
            last = last.filter(|_| got.is_err());
            continue;
        }
        let got = reader.read_cut(body.as_bytes(), &cuts, chunked).asked;
        assert_eq!(got, reader.whole(body.as_bytes()), "{body}");
        let Ok(asked) = got else { continue };
        if let Some(last) = &last {
            check_copies(&reader, last, &talk, &asked.messages);
        }
        last = Some(Last { talk: talk.first(talk.entries.len()), messages: asked.messages });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn chat_in_parts_is_what_the_whole_is(seed: u64) {
        play(Dialect::Chat, seed);
    }

    #[test]
    fn messages_in_parts_are_what_the_whole_is(seed: u64) {
        play(Dialect::Messages, seed);
    }

    #[test]
    fn responses_in_parts_are_what_the_whole_is(seed: u64) {
        play(Dialect::Responses, seed);
    }
}

/// Entries that depend on tools, said twice, with other tools: each is read once.
#[test]
fn equal_entries_share_what_they_are_read_as() {
    play(Dialect::Messages, 5_944_335_094_028_982_552);
}
