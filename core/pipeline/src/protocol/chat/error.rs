//! Faults in OpenAI's shape.

use serde::Serialize;

use crate::fault::{Fault, FaultKind};
use crate::protocol::json;

#[derive(Serialize)]
struct Body<'a> {
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: &'static str,
}

/// Body of an error answer.
pub(in crate::protocol) fn error(fault: &Fault) -> Vec<u8> {
    let error = Error {
        message: &fault.message,
        r#type: kind(fault.kind),
        param: fault.param.as_deref(),
        code: fault.kind.label(),
    };
    let mut out = Vec::new();
    json::write(&mut out, &Body { error });
    out
}

/// The same as the last event of a stream. No end mark follows: that stands behind whole answers
/// only, and clients raise an error at the event itself. The status that could not be sent any more
/// stands in the message: some agents (pi) find nowhere else whether to try again.
pub(in crate::protocol) fn error_event(fault: &Fault) -> Vec<u8> {
    let (status, kind) = (fault.kind.status(), kind(fault.kind));
    let message = format!("{} (HTTP {status}, {kind})", fault.message);
    let told = Fault { message, ..fault.clone() };
    [b"data: ", error(&told).as_slice(), b"\n\n"].concat()
}

/// OpenAI's error types, coarser than our kinds, which are in `code`.
fn kind(kind: FaultKind) -> &'static str {
    match kind.status() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k01_context_overflow_is_named_as_agents_expect() {
        let fault =
            Fault::new(FaultKind::ContextOverflow, "too long: \"120\" > 100").at("messages");
        assert_eq!(
            String::from_utf8(error(&fault)).unwrap(),
            concat!(
                r#"{"error":{"message":"too long: \"120\" > 100","type":"invalid_request_error","#,
                r#""param":"messages","code":"context_length_exceeded"}}"#
            )
        );
    }

    #[test]
    fn k03_types_follow_the_status() {
        let cases = [
            (FaultKind::WrongKey, "authentication_error"),
            (FaultKind::Budget, "permission_error"),
            (FaultKind::UnknownPath, "not_found_error"),
            (FaultKind::BodyTooLarge, "invalid_request_error"),
            (FaultKind::EngineBusy, "server_error"),
            (FaultKind::EngineLimited, "rate_limit_error"),
            (FaultKind::EngineRefused, "invalid_request_error"),
            (FaultKind::JournalFailed, "server_error"),
        ];
        for (fault, name) in cases {
            assert_eq!(kind(fault), name);
        }
    }

    #[test]
    fn d07_a_broken_stream_ends_with_an_error_and_no_end_mark() {
        let event = error_event(&Fault::new(FaultKind::EngineDown, "gone"));
        assert_eq!(
            String::from_utf8(event).unwrap(),
            "data: {\"error\":{\"message\":\"gone (HTTP 502, server_error)\",\"type\":\"server_error\",\
             \"param\":null,\"code\":\"engine_down\"}}\n\n"
        );
    }
}
