//! Load against its own engine, and against servers that are wrong; bodies of every dialect.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::Value;

use super::book::{Book, Place};
use super::dialect::{Answer, Body, Call, HEAD_ROOM, Opening};
use super::stock::Stock;
use super::tools::Tools;
use super::words::{Rng, Words};
use super::{Dialect, Load, LoadConfig, Shape, Traffic, Window};
use crate::engine::tests::model;

const SEED: u64 = 7;

fn book() -> Book {
    let words = Words::new(SEED);
    Book::new(Stock::new(&model(), &words, SEED).unwrap(), SEED)
}

fn at(conversation: u64, turn: u32) -> Place {
    Place { conversation, turn }
}

/// Faults after these prompts were given for turns 0, 1, …; `true`: goes on as it must.
fn faults_of(book: &Book, conversation: u64, follows: &[bool]) -> Vec<String> {
    let mut prompt = "1,2,3".to_owned();
    for (turn, follows) in follows.iter().enumerate() {
        let place = at(conversation, turn as u32);
        let picked = book.reply(place);
        let given = if *follows { prompt.clone() } else { prompt.replacen('2', "9", 1) };
        book.take_prompt(place, given.as_bytes(), &picked);
        prompt = given;
        for piece in book.stock.said(&picked) {
            prompt = format!("{prompt},{}", piece.ids_json);
        }
        prompt += ",5,6";
    }
    book.faults().words
}

#[test]
fn prompts_go_on_from_what_was_sampled_or_are_faults() {
    let book = book();
    assert!(faults_of(&book, 1, &[true, true, true]).is_empty());
    let faults = faults_of(&book, 2, &[true, true, false]);
    assert_eq!(faults, ["[run 2-2]: the prompt does not go on from what was sampled"]);
    let place = at(1, 7);
    let picked = book.reply(place);
    book.take_prompt(place, b"1,2,3", &picked);
    let faults = book.faults().words;
    assert!(faults[0].contains("not longer") && faults[1].contains("turn 3 next"), "{faults:?}");
}

#[test]
fn a_chain_is_of_its_tokens_only() {
    let book = book();
    let place = at(3, 0);
    let picked = book.reply(place);
    assert_eq!(book.take_prompt(place, b"10,200,3", &picked), 3);
    let mut tokens = vec![10, 200, 3];
    book.stock.said(&picked).for_each(|piece| tokens.extend_from_slice(&piece.ids));
    let chain = book.close(3).unwrap();
    assert_eq!((chain.turns, chain.tokens), (1, tokens.len()));
    assert!(chain.is_of(&tokens) && !chain.is_of(&tokens[1..]));
    tokens[1] = 201;
    assert!(!chain.is_of(&tokens));
    assert_eq!(book.close(3), None, "it is forgotten");
}

#[test]
fn answers_are_about_as_long_as_asked_for_and_differ() {
    let book = book();
    let mut seen = std::collections::HashSet::new();
    for turn in 0..50 {
        for tokens in [300, 800] {
            let picked = book.stock.pick(SEED, 1, turn, tokens);
            assert!(picked.tokens.abs_diff(tokens) < 80, "{} of {tokens}", picked.tokens);
            assert_eq!(picked, book.stock.pick(SEED, 1, turn, tokens));
            assert!(seen.insert(format!("{picked:?}")), "it was said before");
        }
    }
}

#[test]
fn places_are_found_again() {
    let text = format!("a {} b {} c", at(1, 2).mark(), at(33, 44).mark());
    assert_eq!(Place::find(text.as_bytes()), Some(at(33, 44)));
    assert_eq!(Place::find(b"[run 5-x]"), None);
    assert_eq!(Place::find(b"nothing"), None);
}

/// The body of a conversation with two turns behind it.
fn body(dialect: Dialect, moves: bool) -> Value {
    let tools = Tools::new(&Words::new(SEED), SEED, 8_000);
    let opening = Opening::new(dialect, true, "m", &tools, moves);
    let mut body = Body::default();
    opening.begin("Mend \"it\".\n", &mut body);
    for n in 0..2 {
        let arguments = r#"{"command": "ls"}"#.to_owned();
        let call = Call { id: format!("c{n}"), name: "bash".to_owned(), arguments };
        let answer = Answer { text: "So.".to_owned(), call: Some(call), ..Answer::default() };
        opening.extend(&mut body, &answer, &format!("result \\ {n}"));
    }
    let before = body.bytes.clone();
    let start = body.finish(b"POST / HTTP/1.1\r\ncontent-length: ");
    let request = body.bytes[start..].to_vec();
    body.reopen();
    assert_eq!(body.bytes[HEAD_ROOM..], before[HEAD_ROOM..], "it can go on");
    let text = String::from_utf8(request).unwrap();
    let (head, json) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(head, format!("POST / HTTP/1.1\r\ncontent-length: {}", json.len()));
    serde_json::from_str(json).unwrap()
}

#[test]
fn bodies_are_json_of_their_dialect() {
    let chat = body(Dialect::Chat, false);
    let roles: Vec<_> = chat["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool"]);
    assert_eq!(chat["tools"].as_array().unwrap().len(), 12);
    assert_eq!(chat["messages"][5]["content"], "result \\ 1");
    let responses = body(Dialect::Responses, false);
    let kinds: Vec<_> = responses["input"].as_array().unwrap().iter().map(|i| &i["type"]).collect();
    let turn = ["message", "function_call", "function_call_output"];
    assert_eq!(kinds, [&["message"][..], &turn, &turn].concat());
    let messages = body(Dialect::Messages, false);
    assert_eq!(messages["messages"][1]["content"][1]["input"]["command"], "ls");
    assert_eq!(messages["messages"][4]["content"][0]["tool_use_id"], "c1");
}

#[test]
fn the_mark_of_the_cache_is_on_the_last_block_alone() {
    let moved = body(Dialect::Messages, true);
    let blocks = moved["messages"].as_array().unwrap().iter().flat_map(|message| {
        message["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block.get("cache_control").is_some())
    });
    assert_eq!(blocks.collect::<Vec<_>>(), [false, false, false, false, false, false, true]);
    let mut plain = moved;
    let last = &mut plain["messages"][4]["content"][0];
    last.as_object_mut().unwrap().remove("cache_control");
    assert_eq!(plain, body(Dialect::Messages, false), "nothing else differs");
}

fn load() -> Load {
    Load::start(LoadConfig { model: model(), max_context: 100_000, seed: SEED }).unwrap()
}

fn window(load: &Load, target: SocketAddr, shape: Shape, stream: bool) -> Window {
    let keys = vec![vec!["k".to_owned(); shape.sizes().sessions as usize]; 2];
    let traffic = Traffic {
        target,
        shape,
        dialect: Dialect::Chat,
        stream,
        direct: true,
        think: Duration::ZERO,
        keys,
    };
    load.prepare(traffic).unwrap();
    load.measure(Duration::from_secs(20), Duration::from_millis(50), || {}).unwrap()
}

#[test]
fn the_engine_answers_its_own_load_as_json_and_as_events() {
    let load = load();
    for stream in [false, true] {
        for shape in [Shape::Small, Shape::Coding] {
            let window = window(&load, load.engine(), shape, stream);
            assert_eq!((window.errors, &window.error), (0, &None));
            let sizes = shape.sizes();
            assert_eq!(window.turns, u64::from(2 * sizes.turns * sizes.conversations));
            assert_eq!(window.latency_ns.len(), window.turns);
        }
    }
}

/// A server that says the same to every request.
fn says(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut bytes = vec![0; 1 << 20];
                while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[track_caller]
fn check_error(load: &Load, answer: &'static str, wanted: &str) {
    let window = window(load, says(answer), Shape::Small, false);
    let error = window.error.unwrap_or_default();
    assert_eq!((window.errors, window.turns), (2, 0), "each agent stops: {error}");
    assert!(error.starts_with("[run ") && error.contains(wanted), "{error} lacks {wanted}");
}

#[test]
fn wrong_answers_are_told_apart() {
    let load = load();
    check_error(&load, "HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\noops", "status 500: oops");
    check_error(&load, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{]", "not one of chat");
    let other = "HTTP/1.1 200 OK\r\ncontent-length: 45\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"other\"}}]}";
    check_error(&load, other, "the text is not what the engine said");
    let cut = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    check_error(&load, cut, "invalid digit");
}

#[test]
fn texts_are_fresh() {
    let words = Words::new(SEED);
    let mut rng = Rng::new(1);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        let mut text = String::new();
        words.text(&mut rng, 2_048, &mut text);
        assert!(seen.insert(text));
    }
}
