//! Conversations that are replaced by a summary.

use serde_json::{Value, json};

use super::{X, json_of, meta, read, reply, try_read, user};
use crate::protocol::{Dialect, ReplyMeta, responses};
use crate::turn::{Finish, Message, Purpose, Role};

const SUMMARY: &str = "Two files were changed; one test still fails.";

fn compacting(input: Value) -> Value {
    json!({"model": "m", "input": input, "tools": [{"type": "function", "name": "f"}]})
}

#[test]
fn b17_a_trigger_asks_for_a_compaction_item() {
    let asked = read(&compacting(json!([user("q"), {"type": "compaction_trigger"}])));
    assert_eq!(asked.purpose, Purpose::Compaction);
    assert_eq!(asked.messages[0], Message::text(Role::User, "q"));
    assert_eq!((asked.messages.len(), asked.messages[1].role), (2, Role::User));
    assert_eq!(asked.tools.len(), 1, "the prompt goes on from the line before");
    let meta = ReplyMeta { purpose: asked.purpose, echo: asked.echo, ..meta(Finish::Stop) };
    let got = json_of(&reply(Some("r"), SUMMARY, &[]), &meta);
    let [item] = &got["output"].as_array().unwrap()[..] else { panic!("{got}") };
    assert_eq!((&item["type"], &item["id"]), (&json!("compaction"), &json!(format!("cmp_{X}"))));
    let blob = item["encrypted_content"].as_str().unwrap();
    assert!(!blob.contains("files"), "{blob}");

    let asked = read(&json!({"model": "m", "input": [item, user("go on")]}));
    assert_eq!((asked.purpose, asked.messages.len()), (Purpose::Turn, 2));
    assert_eq!(asked.messages[0].role, Role::User);
    assert!(asked.messages[0].content.ends_with(&format!("\n\n{SUMMARY}")));
}

#[test]
fn b17_the_compact_call_answers_with_what_stays() {
    let earlier = json!({"type": "compaction", "encrypted_content": "rgc1_b2xk"});
    let input = json!([
        {"role": "developer", "content": "rules"}, earlier, user("first"),
        {"role": "assistant", "content": "x".repeat(2_000_000)}, user("second"),
    ]);
    let body = json!({"model": "m", "instructions": "I", "input": input}).to_string();
    let asked = responses::read_compact(body.as_bytes(), &()).unwrap();
    assert_eq!((asked.purpose, asked.messages.len()), (Purpose::Compaction, 7));
    let meta = ReplyMeta { purpose: asked.purpose, echo: asked.echo, ..meta(Finish::Stop) };
    let got = json_of(&reply(None, SUMMARY, &[]), &meta);
    let keys: Vec<_> = got.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["id", "object", "created_at", "output", "usage"]);
    assert_eq!(got["object"], "response.compaction");
    let output = got["output"].as_array().unwrap();
    assert_eq!(output.len(), 3);
    let again = read(&json!({"model": "m", "input": output}));
    let texts: Vec<_> = again.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(texts[..2], ["first", "second"]);
    assert!(texts[2].ends_with(SUMMARY));
}

#[test]
fn b17_what_cannot_be_read_is_refused() {
    let cases = [
        (
            json!([{"type": "compaction", "encrypted_content": "gAAAAABo"}]),
            "input[0].encrypted_content",
        ),
        (json!([user("q"), {"type": "compaction"}]), "input[1].encrypted_content"),
        (json!([{"type": "compaction_trigger"}, user("q")]), "input[0]"),
        (json!([{"type": "compaction_trigger"}]), "input"),
    ];
    for (input, param) in cases {
        let fault = try_read(&json!({"model": "m", "input": input}), &()).unwrap_err();
        assert_eq!((fault.kind.status(), fault.param.as_deref()), (400, Some(param)));
    }
}

#[test]
fn b17_what_is_no_whole_summary_replaces_nothing() {
    let kept = serde_json::Map::from_iter([("compaction_output".to_owned(), json!([user("q")]))]);
    let triggered = ReplyMeta { purpose: Purpose::Compaction, ..meta(Finish::Stop) };
    let called = ReplyMeta { echo: kept, ..triggered.clone() };
    for (content, finish, status, word) in [
        (SUMMARY, Finish::Stop, "completed", None),
        ("", Finish::Stop, "failed", Some("no summary")),
        (" \n", Finish::Stop, "failed", Some("no summary")),
        (SUMMARY, Finish::Length, "incomplete", Some("max_output_tokens")),
        (SUMMARY, Finish::Abort, "incomplete", Some("the engine gave up")),
        ("", Finish::Length, "incomplete", Some("max_output_tokens")),
    ] {
        let reply = reply(None, content, &[]);
        let meta = ReplyMeta { finish, ..triggered.clone() };
        assert_eq!(Dialect::Responses.refusal(&reply, &meta), None, "its status says it");
        let got = json_of(&reply, &meta);
        assert_eq!(got["status"], status, "{content:?} {finish:?}");
        let items = got["output"].as_array().unwrap().len();
        assert_eq!(items, usize::from(word.is_none()), "{content:?} {finish:?}");
        let meta = ReplyMeta { finish, ..called.clone() };
        let fault = Dialect::Responses.refusal(&reply, &meta);
        assert_eq!(fault.is_some(), word.is_some(), "{content:?} {finish:?}");
        if let (Some(fault), Some(word)) = (fault, word) {
            assert_eq!(fault.kind.status(), 502);
            assert!(fault.message.contains(word), "{fault}");
        }
    }
}

#[test]
fn a_summary_of_nothing_is_a_failure() {
    let meta = ReplyMeta { purpose: Purpose::Compaction, ..meta(Finish::Stop) };
    let reply = reply(Some("r"), " \n", &[]);
    let got = json_of(&reply, &meta);
    assert_eq!((&got["status"], &got["output"]), (&json!("failed"), &json!([])));
    assert_eq!(got["error"]["code"], "empty_summary");
    let stream = String::from_utf8(Dialect::Responses.events(&reply, &meta, false)).unwrap();
    assert!(stream.contains("event: response.failed\n") && !stream.contains("completed"));
}
