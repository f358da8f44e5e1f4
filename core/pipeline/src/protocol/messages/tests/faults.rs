//! Faults in the dialect's shape.

use serde_json::json;

use super::*;

fn error(fault: &Fault) -> Value {
    serde_json::from_slice(&Dialect::Messages.error(fault)).unwrap()
}

#[test]
fn k01_context_overflow_is_named_as_agents_expect() {
    let why = "prompt is too long: 120 tokens > 100 maximum";
    let fault = Fault::new(FaultKind::ContextOverflow, why).at("messages");
    let want = json!({"type": "error", "error": {"type": "invalid_request_error", "message": why}});
    assert_eq!(error(&fault), want);
}

#[test]
fn k03_types_follow_the_status() {
    let cases = [
        (FaultKind::BadJson, "invalid_request_error"),
        (FaultKind::BadRequest, "invalid_request_error"),
        (FaultKind::TemplateRefused, "invalid_request_error"),
        (FaultKind::WrongKey, "authentication_error"),
        (FaultKind::Budget, "permission_error"),
        (FaultKind::UnknownPath, "not_found_error"),
        (FaultKind::BodyTooLarge, "request_too_large"),
        (FaultKind::EngineBusy, "overloaded_error"),
        (FaultKind::Draining, "overloaded_error"),
        (FaultKind::EngineTimeout, "timeout_error"),
        (FaultKind::EngineDown, "api_error"),
        (FaultKind::JournalFailed, "api_error"),
    ];
    for (kind, name) in cases {
        assert_eq!(error(&Fault::new(kind, "why"))["error"]["type"], name, "{kind:?}");
    }
}

#[test]
fn a_bad_field_is_in_the_message() {
    let fault = try_read(&with(json!({"tools": [{"name": ""}]}))).unwrap_err();
    let message = "tools[0].name: a tool needs a name, a text that is not empty";
    assert_eq!(error(&fault)["error"]["message"], message);
}

#[test]
fn c12_a_broken_stream_ends_with_an_error() {
    let fault = Fault::new(FaultKind::EngineDown, "gone");
    let meta =
        crate::protocol::StreamMeta { id: "7".to_owned(), created_s: 9, model: "m".to_owned() };
    assert_eq!(
        String::from_utf8(Dialect::Messages.error_event(&fault, &meta)).unwrap(),
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\
         \"message\":\"gone\"}}\n\n"
    );
}
