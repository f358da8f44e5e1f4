//! How much of a body is looked at.

use serde_json::{Value, json};

use super::*;
use crate::limits::CHECKPOINT_BYTES;
use crate::protocol::Dialect::{Chat, Messages, Responses};
use crate::turn::Message;

/// What an agent with a long prompt sends: this many exchanges, each of about 4 KB.
fn entries(dialect: Dialect, exchanges: usize) -> Vec<Value> {
    let text = |at: usize| format!("result {at} with \"quotes\"\n").repeat(120);
    let mut entries = vec![match dialect {
        Responses => json!({"type": "message", "role": "user", "content": "begin"}),
        Messages => json!({"role": "user", "content": [{"type": "text", "text": "begin"}]}),
        Chat => json!({"role": "system", "content": "be good ".repeat(500)}),
    }];
    for at in 0..exchanges {
        let id = format!("c{at}");
        match dialect {
            Chat => entries.extend([
                json!({"role": "assistant", "content": null, "tool_calls": [
                    {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
                json!({"role": "tool", "tool_call_id": id, "content": text(at)}),
            ]),
            Messages => entries.extend([
                json!({"role": "assistant", "content": [
                    {"type": "text", "text": "go"},
                    {"type": "tool_use", "id": id, "name": "f", "input": {}}]}),
                json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": id, "content": text(at)}]}),
            ]),
            Responses => entries.extend([
                json!({"type": "message", "role": "assistant", "content": "go"}),
                json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
                json!({"type": "function_call_output", "call_id": id, "output": text(at)}),
            ]),
        }
    }
    entries
}

fn tools(dialect: Dialect) -> Value {
    let about = "a tool ".repeat(300);
    let tool = |name: &str| match dialect {
        Chat => json!({"type": "function", "function": {"name": name, "description": about}}),
        Messages => json!({"name": name, "description": about, "input_schema": {}}),
        Responses => json!({"type": "function", "name": name, "description": about}),
    };
    json!(["f", "g", "h", "i"].map(tool))
}

fn body(dialect: Dialect, entries: &[Value], more: Value) -> String {
    let mut body = match dialect {
        Chat => json!({"messages": entries, "model": "m", "stream": true}),
        Messages => json!({"model": "m", "system": "be good ".repeat(500), "messages": entries}),
        Responses => {
            json!({"model": "m", "instructions": "be good ".repeat(500), "input": entries})
        }
    };
    body["tools"] = tools(dialect);
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

fn read(reader: &mut Reader, body: &str) -> (Asked, Work) {
    let request = reader.read(body);
    let asked = request.asked.unwrap();
    assert_eq!(asked, reader.whole(body.as_bytes()).unwrap());
    (asked, request.work)
}

fn copies(one: &[Message], other: &[Message]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one.is_copy_of(other)).count()
}

/// The next request of a conversation: only what is new in it is scanned and parsed, and no more
/// than that and a piece between two checkpoints is held.
#[test]
fn seen_bytes_are_neither_scanned_nor_parsed_nor_held() {
    for dialect in Dialect::ALL {
        let mut reader = Reader::new(dialect);
        let entries = entries(dialect, 100);
        let first = entries.len() - 12;
        let (mut before, _) = read(&mut reader, &body(dialect, &entries[..first], json!({})));
        for end in first + 1..=entries.len() {
            let whole = body(dialect, &entries[..end], json!({}));
            let new = entries[end - 1].to_string().len();
            let (asked, work) = read(&mut reader, &whole);
            assert!(whole.len() > 200_000, "{dialect:?} {}", whole.len());
            assert!(work.scanned_bytes <= new + 8, "{dialect:?} {work:?} {new}");
            assert!(work.parsed_bytes <= new + 100, "{dialect:?} {work:?} {new}");
            assert!(asked.tools.is_copy_of(&before.tools));
            let same = copies(&asked.messages, &before.messages);
            assert!(same + 1 >= before.messages.len(), "{dialect:?} {same}");
            // Tools behind the list are held until all of it is here.
            let most = 2 * CHECKPOINT_BYTES + new + 12_000;
            assert!(reader.held_bytes <= most, "{dialect:?} {} {new}", reader.held_bytes);
            before = asked;
        }
    }
}

/// A body without a length is recognised, too.
#[test]
fn chunks_are_as_good_as_a_length() {
    let mut reader = Reader::new(Chat);
    let entries = entries(Chat, 60);
    read(&mut reader, &body(Chat, &entries[..119], json!({})));
    let whole = body(Chat, &entries, json!({}));
    let request = reader.read_cut(whole.as_bytes(), &[5_000, 1_000], true);
    let new = entries[119..].iter().map(|entry| entry.to_string().len() + 1).sum::<usize>();
    assert!(request.work.scanned_bytes <= new + 8, "{:?}", request.work);
    assert_eq!(request.asked, reader.whole(whole.as_bytes()));
}

/// An agent that moves its marks of what to cache changes entries near the end each time.
#[test]
fn moved_cache_marks_cost_what_they_move_over() {
    let mut reader = Reader::new(Messages);
    let plain = entries(Messages, 60);
    let mark = |entries: &mut [Value], at: usize| {
        let content = entries[at]["content"].as_array_mut().unwrap().last_mut().unwrap();
        content["cache_control"] = json!({"type": "ephemeral"});
    };
    let ask = |reader: &mut Reader, count: usize| {
        let mut marked = plain[..count].to_vec();
        mark(&mut marked, count - 1);
        mark(&mut marked, count - 3);
        let whole = body(Messages, &marked, json!({}));
        let (asked, work) = read(reader, &whole);
        let new: usize = marked[count - 5..].iter().map(|entry| entry.to_string().len() + 1).sum();
        (asked, work, new)
    };
    let (mut before, ..) = ask(&mut reader, 101);
    for count in [103, 105, 107, 109, 111] {
        let (asked, work, new) = ask(&mut reader, count);
        assert!(work.scanned_bytes <= new + 8, "{work:?} {new}");
        assert!(work.parsed_bytes <= new + 100, "{work:?} {new}");
        let same = copies(&asked.messages, &before.messages);
        assert!(same + 6 >= before.messages.len(), "{same} of {}", before.messages.len());
        before = asked;
    }
}

/// Another frame: tools and entries are found by their bytes.
#[test]
fn a_changed_frame_parses_only_what_changed() {
    for dialect in Dialect::ALL {
        let mut reader = Reader::new(dialect);
        let entries = entries(dialect, 20);
        let (before, _) = read(&mut reader, &body(dialect, &entries, json!({})));
        for more in [json!({"temperature": 0.5}), json!({"zone": 1}), json!({"a": {"b": []}})] {
            let (asked, work) = read(&mut reader, &body(dialect, &entries, more));
            assert!(work.parsed_bytes <= 150, "{dialect:?} {work:?}");
            assert_eq!(copies(&asked.messages, &before.messages), before.messages.len());
            assert!(asked.tools.is_copy_of(&before.tools));
        }
        // Another model is told before anything else in two dialects: all is scanned, little parsed.
        let (asked, work) = read(&mut reader, &body(dialect, &entries, json!({"model": "n"})));
        assert!(work.parsed_bytes <= 150, "{dialect:?} {work:?}");
        assert_eq!(copies(&asked.messages, &before.messages), before.messages.len());
    }
}

/// Tools and instructions are read once for all sessions of a shard.
#[test]
fn sessions_share_tools_and_instructions() {
    for dialect in Dialect::ALL {
        let mut reader = Reader::new(dialect);
        let entries = entries(dialect, 1);
        let (one, _) = read(&mut reader, &body(dialect, &entries, json!({})));
        let mut reader = reader.other();
        let (other, work) = read(&mut reader, &body(dialect, &entries, json!({})));
        assert!(other.tools.is_copy_of(&one.tools));
        assert!(other.messages[0].is_copy_of(&one.messages[0]), "{dialect:?}");
        assert!(!other.messages[1].is_copy_of(&one.messages[1]), "{dialect:?}");
        let said: usize = entries[1..].iter().map(|entry| entry.to_string().len()).sum();
        assert!(work.parsed_bytes <= said + 150, "{dialect:?} {work:?}");
    }
}

/// Conversations side by side do not make each other be read anew.
#[test]
fn conversations_go_on_side_by_side() {
    let mut reader = Reader::new(Chat);
    let main = entries(Chat, 30);
    let sub = |name: usize| {
        let mut entries = entries(Chat, 20);
        entries[0] = json!({"role": "system", "content": format!("subagent {name}")});
        entries
    };
    let subs = [sub(0), sub(1), sub(2)];
    for round in 0..4 {
        for talk in std::iter::once(&main).chain(&subs) {
            let whole = body(Chat, &talk[..31 + 2 * round], json!({}));
            let (_, work) = read(&mut reader, &whole);
            assert!(round == 0 || work.scanned_bytes <= 5_000, "{work:?}");
        }
    }
}

/// However a body is cut on its way, the same comes of it.
#[test]
fn every_cut_gives_the_same() {
    let mut reader = Reader::new(Chat);
    let entries = entries(Chat, 2);
    let whole = body(Chat, &entries, json!({}));
    let (asked, _) = read(&mut reader, &whole);
    for cut in (1..whole.len()).step_by(7) {
        let request = reader.read_cut(whole.as_bytes(), &[cut, whole.len()], cut % 2 == 0);
        let again = request.asked.unwrap();
        assert_eq!(again, asked);
        assert_eq!(copies(&again.messages, &asked.messages), asked.messages.len());
    }
}

/// What retries are recognised by.
#[test]
fn the_order_of_client_metadata_does_not_tell_requests_apart() {
    let one = r#"{"input":"a","client_metadata":{"x":"1","y":"{}"},"store":false}"#;
    let digest = |dialect, body: &str| Reader::new(dialect).read(body).digest;
    for (other, equal) in [
        (r#"{"input":"a","client_metadata":{"y":"{}","x":"1"},"store":false}"#, true),
        (r#"{"client_metadata":{"y":"{}","x":"1"},"store":false,"input":"a"}"#, true),
        (r#"{"input":"a","client_metadata":{"x":"{}","y":"1"},"store":false}"#, false),
        (r#"{"input":"a","client_metadata":{"x":"1"},"store":false}"#, false),
        (r#"{"input":"b","client_metadata":{"x":"1","y":"{}"},"store":false}"#, false),
        (r#"{"input":"a","store":false}"#, false),
        ("no object", false),
    ] {
        let [left, right] = [one, other].map(|body| digest(Responses, body));
        assert_eq!(left == right, equal, "{other}");
        assert_ne!(digest(Chat, one), digest(Chat, other), "{other}");
    }
}

/// A request has one digest, whatever was known of it.
#[test]
fn a_digest_is_of_the_body_alone() {
    for dialect in Dialect::ALL {
        let entries = entries(dialect, 20);
        let whole = body(dialect, &entries, json!({}));
        let fresh = Reader::new(dialect).read(&whole).digest;
        let mut reader = Reader::new(dialect);
        let shorter = reader.read(&body(dialect, &entries[..30], json!({}))).digest;
        assert_eq!(reader.read(&whole).digest, fresh);
        assert_eq!(reader.read(&whole).digest, fresh);
        assert_ne!(shorter, fresh);
        let other = reader.read(&body(dialect, &entries, json!({"zone": 1}))).digest;
        assert_ne!(other, fresh);
    }
}
