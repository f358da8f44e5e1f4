//! OpenAI Responses.

use super::{Past, ReplyMeta, StreamMeta};
use crate::fault::{Fault, FaultKind};
use crate::turn::{Asked, Reply};

pub(super) fn read(_body: &[u8], _past: &dyn Past) -> Result<Asked, Fault> {
    Err(Fault::new(FaultKind::UnknownPath, "Responses are not served yet"))
}

pub(super) fn reply(_reply: &Reply, _meta: &ReplyMeta) -> Vec<u8> {
    Vec::new()
}

pub(super) fn events(_reply: &Reply, _meta: &ReplyMeta) -> Vec<u8> {
    Vec::new()
}

pub(super) fn error_event(fault: &Fault, _meta: &StreamMeta) -> Vec<u8> {
    super::chat::error_event(fault)
}
