//! Faults inside a stream. Error answers have the same shape in both of OpenAI's APIs.

use serde_json::Map;

use super::answer::{self, ErrorBody};
use super::events::Stream;
use crate::fault::Fault;
use crate::protocol::StreamMeta;

/// A stream that fails: its first events, then `response.failed`. Codex looks at the code to tell
/// what can be tried again from what cannot.
pub(in crate::protocol) fn error_event(fault: &Fault, meta: &StreamMeta) -> Vec<u8> {
    let echo = answer::settled(&Map::new());
    let mut response = answer::begun(meta, &echo);
    response.status = "failed";
    response.error = Some(ErrorBody { code: fault.kind.label(), message: &fault.message });
    Stream::begin(meta, &echo).end(&response)
}

/// The fault with the conversation named as this dialect names it.
pub(in crate::protocol) fn named(fault: &Fault) -> Fault {
    let mut fault = fault.clone();
    if fault.param.as_deref() == Some("messages") {
        fault.param = Some("input".to_owned());
    }
    fault
}
