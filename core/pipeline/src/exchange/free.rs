//! Answers that need no session.

use bytes::Bytes;

use super::Gatehouse;
use crate::fault::{Fault, FaultKind};
use crate::http::{self, Call, Framing, Method, RequestHead, Route};
use crate::protocol::Dialect;

const JSON: &str = "application/json";

/// An error answer in the caller's dialect.
pub fn refusal(dialect: Dialect, fault: &Fault, keep_alive: bool) -> Bytes {
    refusal_with(dialect, fault, keep_alive, &[])
}

/// The same with further headers, name and value.
pub(super) fn refusal_with(
    dialect: Dialect,
    fault: &Fault,
    keep_alive: bool,
    extra: &[(&str, &str)],
) -> Bytes {
    let retry_after = fault.retry_after_s.map(|seconds| seconds.to_string());
    let mut extra = extra.to_vec();
    if let Some(seconds) = &retry_after {
        extra.push(("retry-after", seconds.as_str()));
    }
    if let Some(methods) = fault.allow {
        extra.push(("allow", methods));
    }
    if fault.kind == FaultKind::WrongKey {
        extra.push(("www-authenticate", "Bearer"));
    }
    if fault.kind == FaultKind::UpgradeRefused {
        extra.push(("upgrade", "HTTP/1.1"));
    }
    http::reply(fault.kind.status(), JSON, &dialect.error(fault), keep_alive, &extra)
}

/// The answer to a call that needs no session, if it is one, and whether the connection may be kept.
pub fn without_session(
    gatehouse: &Gatehouse,
    head: &RequestHead,
    route: &Route,
) -> Option<(Bytes, bool)> {
    // A body is not expected here and not read.
    let keep_alive = head.keep_alive && head.framing == Framing::None;
    let model = &gatehouse.model;
    // Both APIs list models at the same path.
    let models = |one| http::guessed(head).models(&model.name, model.max_context, one);
    let body = match &route.call {
        call if call.asks() => return None,
        Call::Options(allow) => {
            let answer = http::reply(200, JSON, &[], keep_alive, &[("allow", *allow)]);
            return Some((answer, keep_alive));
        }
        Call::Models => models(false),
        Call::Model(_) => models(true),
        _ => Bytes::from_static(br#"{"status":"ok"}"#),
    };
    let body = if head.method == Method::Head { &[][..] } else { &body };
    Some((http::reply(200, JSON, body, keep_alive, &[]), keep_alive))
}
