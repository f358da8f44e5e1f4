//! Templates disagree on the form of calls: each gets the one it takes.

use super::*;

macro_rules! hostile {
    ($name:literal) => {{
        let source = include_str!(concat!("../../../tests/templates/hostile/", $name, ".jinja"));
        Model::load(ModelFiles { template: Some(source.to_owned()), ..test_files() }).unwrap()
    }};
}

fn called(arguments: &str) -> Vec<Message> {
    let mut answer = Message::text(Role::Assistant, "");
    answer.tool_calls = vec![ToolCall {
        id: "c".to_owned(),
        name: "w".to_owned(),
        arguments: arguments.to_owned(),
    }];
    let mut result = Message::text(Role::Tool, "ok");
    result.tool_call_id = Some("c".to_owned());
    vec![user("a"), answer, result]
}

#[track_caller]
fn check(model: &Model, arguments: &str, written: &str) {
    let whole = text(model, &first(model, &called(arguments)));
    assert!(whole.contains(written), "{whole}");
    assert!(!whole.contains("None"), "{whole}");
}

const PARIS: &str = r#"{"city":"Paris","n":3}"#;

#[test]
fn h01_arguments_are_decoded_for_a_template_that_walks_over_them() {
    check(&hostile!("walks_arguments"), PARIS, "<tool_call>w city=Paris n=3</tool_call>");
}

#[test]
fn h02_every_template_gets_the_form_it_takes() {
    let joined = r#"{"name": "w", "arguments": {"city":"Paris","n":3}}"#;
    check(&hostile!("text_arguments"), PARIS, joined);
    let dumped = r#"{"name": "w", "arguments": {"city": "Paris", "n": 3}}"#;
    check(&hostile!("text_hides_calls"), PARIS, dumped);
    check(&test_model(), PARIS, dumped);
    let model = hostile!("text_hides_calls");
    assert!(model.notes.iter().any(|note| note.contains("with text beside")), "{:?}", model.notes);
}

#[test]
fn h10_broken_arguments_do_not_stop_a_conversation() {
    let broken = r#"{"q": "a"#;
    check(&test_model(), broken, r#""arguments": {"q": "a}"#);
    check(&hostile!("text_arguments"), broken, r#""arguments": {"q": "a}"#);
    check(&hostile!("walks_arguments"), broken, r#"<tool_call>w arguments={"q": "a</tool_call>"#);
}

#[test]
fn h11_calls_stay_in_the_history() {
    let model = test_model();
    let mut messages = called(PARIS);
    messages.push(Message::text(Role::Assistant, "Done."));
    messages.push(user("b"));
    let whole = text(&model, &first(&model, &messages));
    assert_eq!(whole.matches("<tool_call>\n{\"name\": \"w\"").count(), 1, "{whole}");
    let compared = check_bridges(&model).unwrap();
    assert!(compared.same_ids > 0, "{compared:?}");
}

#[test]
fn integers_of_any_size_are_written_exactly() {
    let arguments = r#"{"a": 123456789012345678901234567890, "b": [-98765432109876543210], "c": 18446744073709551615, "d": 1.5}"#;
    check(&test_model(), arguments, arguments);
    check(&hostile!("text_arguments"), arguments, arguments);
    check(&hostile!("walks_arguments"), arguments, "w a=123456789012345678901234567890 b=[-98765");
}

#[test]
fn integers_of_a_tool_schema_are_written_exactly() {
    let schema = r#"{"maximum": 340282366920938463463374607431768211456, "minimum": -1}"#;
    let tool = format!(
        r#"{{"type": "function", "function": {{"name": "f", "parameters": {{"properties": {{"n": {schema}}}}}}}}}"#
    );
    let tools = [crate::exact::read(&tool).unwrap()];
    let model = test_model();
    let ids = model.first(&[user("a")], &tools, &Map::new()).unwrap();
    assert!(text(&model, &ids).contains(&tool), "{}", text(&model, &ids));
}
