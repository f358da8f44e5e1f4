//! What comes back by ids and opaque texts.

use serde_json::{Value, json};

use super::{Kept, X, Y, call, meta, output_of, reply, try_read, user, wire};
use crate::fault::FaultKind;
use crate::protocol::ReplyMeta;
use crate::turn::{Asked, Finish, Message, MessageFields, Reply, Role, WireForm};

fn whole() -> Reply {
    reply(Some("thought"), "text", &[call("c1", "f", "{}"), call("c2", "g", "{}")])
}

fn read(input: Value, past: &Kept) -> Asked {
    try_read(&json!({"model": "m", "input": input}), past)
        .unwrap_or_else(|fault| panic!("{fault:?}"))
}

fn assistant(reply: &Reply) -> Message {
    MessageFields {
        reasoning: reply.reasoning.clone(),
        tool_calls: reply.tool_calls.clone(),
        ..MessageFields::text(Role::Assistant, reply.content.as_str())
    }
    .into()
}

#[test]
fn b13_references_are_resolved() {
    let past = Kept::new([(X, whole())]);
    let refer = |id: String| json!({"type": "item_reference", "id": id});
    let input = json!([
        user("q"),
        refer(format!("rs_{X}")), refer(format!("msg_{X}")),
        refer(format!("fc_{X}_0")), refer(format!("fc_{X}_1")),
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]);
    assert_eq!(read(input, &past).messages[1], assistant(&whole()));
    let bare = json!([user("q"), {"id": format!("msg_{X}")}]);
    assert_eq!(read(bare, &past).messages[1], Message::text(Role::Assistant, "text"));
    for id in ["fc_1".to_owned(), format!("msg_{Y}"), format!("fc_{X}_2"), String::new()] {
        let input = json!([user("q"), refer(id)]);
        let fault = try_read(&json!({"model": "m", "input": input}), &past).unwrap_err();
        assert_eq!((fault.kind, fault.kind.status()), (FaultKind::UnknownItem, 404));
        assert_eq!(fault.param.as_deref(), Some("input[1].id"));
        assert!(fault.message.contains("input[1]"), "{fault}");
    }
}

/// What an agent keeps of a reply that does not show reasoning.
fn without_reasoning_text(reply: &Reply, exchange: &str) -> Vec<Value> {
    let meta = ReplyMeta { id: exchange.to_owned(), ..meta(Finish::Stop) };
    let mut items = output_of(reply, &meta);
    let reasoning = items[0].as_object_mut().unwrap();
    reasoning.remove("content");
    reasoning.remove("id");
    items
}

#[test]
fn b15_opaque_reasoning_counts_once_and_in_its_turn_only() {
    let past = Kept::new([(X, whole()), (Y, reply(None, "later", &[]))]);
    let first = without_reasoning_text(&whole(), X);
    let blob = first[0].clone();
    let later = json!({"type": "message", "role": "assistant", "id": format!("msg_{Y}"),
        "content": [{"type": "output_text", "text": "later"}]});
    let results = [
        json!({"type": "function_call_output", "call_id": "c1", "output": "1"}),
        json!({"type": "function_call_output", "call_id": "c2", "output": "2"}),
    ];
    let input = |parts: &[&[Value]]| Value::from(parts.concat());

    // Its own turn: the text comes back.
    let asked = read(input(&[&[user("q")], &first, &results]), &past);
    assert_eq!(asked.messages[1], assistant(&whole()));
    assert!(asked.skipped.is_empty());

    // Again in a later turn: nothing.
    let asked = read(
        input(&[&[user("q")], &first, &results, &[user("r"), blob.clone(), later.clone()]]),
        &past,
    );
    assert_eq!(asked.messages[1], assistant(&whole()));
    assert_eq!(asked.messages[5], Message::text(Role::Assistant, "later"));
    assert_eq!(asked.skipped, [("reasoning".to_owned(), 1)].into());

    // In a later turn only, whether that one says whose it is or not: nothing.
    for id in [json!(format!("msg_{Y}")), Value::Null] {
        let mut later = later.clone();
        later["id"] = id;
        let asked = read(input(&[&[user("r"), blob.clone(), later]]), &past);
        let said: Vec<_> =
            asked.messages[1..].iter().filter(|message| !message.content.is_empty()).collect();
        assert_eq!(said, [&Message::text(Role::Assistant, "later")]);
        assert!(asked.messages.iter().all(|message| message.reasoning.is_none()));
        assert_eq!(asked.skipped, [("reasoning".to_owned(), 1)].into());
    }

    // Somebody else's, or of a session that is not known: nothing, and never an error.
    for foreign in ["gAAAAABo", "rg1_0", &format!("rg1_{}", Y.replace('f', "0"))] {
        let item = json!({"type": "reasoning", "summary": [], "encrypted_content": foreign});
        let asked = read(input(&[&[user("r"), item, later.clone()]]), &past);
        assert_eq!(asked.messages[1..], [Message::text(Role::Assistant, "later")]);
        assert_eq!(asked.skipped, [("reasoning".to_owned(), 1)].into());
    }
}

#[test]
fn text_that_is_shown_beside_a_blob_counts_as_it_is() {
    let item = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}],
        "encrypted_content": "gAAAAABo"});
    let input = json!([user("q"), item, {"role": "assistant", "content": "t"}]);
    let asked = read(input, &Kept::default());
    assert_eq!(asked.messages[1].reasoning.as_deref(), Some("S"));
    assert!(asked.skipped.is_empty());
}

#[test]
fn d04_white_space_that_no_item_stood_for_comes_back() {
    let reply = reply(Some("r"), "\n\n", &[call("c1", "f", "{}")]);
    let past = Kept::new([(X, reply.clone())]);
    let items = output_of(&reply, &meta(Finish::Stop));
    assert_eq!(items.len(), 2);
    assert_eq!(read(items.into(), &past).messages, [assistant(&reply)]);
}

#[test]
fn b03_calls_whose_results_stand_between_are_one_message() {
    let past = Kept::new([(X, whole())]);
    let items = output_of(&whole(), &meta(Finish::Stop));
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": id});
    let input =
        json!([user("q"), items[0], items[1], items[2], result("c1"), items[3], result("c2")]);
    let asked = read(input, &past);
    assert_eq!(asked.messages[1], assistant(&whole()));
    let results: Vec<_> =
        asked.messages[2..].iter().map(|message| message.content.as_str()).collect();
    assert_eq!(results, ["c1", "c2"]);
}

#[test]
fn items_of_two_answers_are_two_messages() {
    let past = Kept::default();
    let message = |id: &str, text: &str| json!({"type": "message", "role": "assistant", "id": format!("msg_{id}"), "content": text});
    let asked = read(json!([user("q"), message(X, "a"), message(Y, "b")]), &past);
    let texts: Vec<_> = asked.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(texts, ["q", "a", "b"]);
}

#[test]
fn b08_arguments_come_back_as_the_model_wrote_them() {
    for arguments in [r#"{ "input" : "text" }"#, r#"{"patch": 1}"#] {
        let reply = reply(None, "", &[call("c1", "p", arguments)]);
        let past = Kept::new([(X, reply.clone())]);
        let mut meta = meta(Finish::Stop);
        meta.wire_tools = [("p".to_owned(), wire(None, "p", WireForm::Custom))].into();
        let items = output_of(&reply, &meta);
        assert_eq!(read(items.clone().into(), &past).messages, [assistant(&reply)]);
        // An agent that changed the text means what it says.
        let mut changed = items;
        changed[0]["input"] = "other".into();
        let asked = read(changed.into(), &past);
        assert_eq!(asked.messages[0].tool_calls[0].arguments, r#"{"input":"other"}"#);
    }
}
