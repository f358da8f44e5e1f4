//! Faults in Anthropic's shape.

use serde::Serialize;

use crate::fault::{Fault, FaultKind};
use crate::protocol::json;

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    r#type: &'static str,
    message: &'a str,
}

/// Body of an error answer. The shape has no place for the field at fault, so the message names it.
pub(in crate::protocol) fn error(fault: &Fault) -> Vec<u8> {
    let message = match (&fault.param, fault.kind) {
        (Some(param), FaultKind::BadRequest) => &format!("{param}: {}", fault.message),
        _ => &fault.message,
    };
    let body = Body { r#type: "error", error: Error { r#type: kind(fault.kind), message } };
    let mut out = Vec::new();
    json::write(&mut out, &body);
    out
}

/// The same as the last event of a stream.
pub(in crate::protocol) fn error_event(fault: &Fault) -> Vec<u8> {
    [b"event: error\ndata: ", error(fault).as_slice(), b"\n\n"].concat()
}

/// Anthropic's error types, coarser than our kinds.
fn kind(kind: FaultKind) -> &'static str {
    match kind.status() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
