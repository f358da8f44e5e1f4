//! Anthropic Messages.

use super::ReplyMeta;
use crate::fault::{Fault, FaultKind};
use crate::turn::{Asked, Reply};

pub(super) fn read(_body: &[u8]) -> Result<Asked, Fault> {
    Err(Fault::new(FaultKind::UnknownPath, "Messages are not served yet"))
}

pub(super) fn reply(_reply: &Reply, _meta: &ReplyMeta) -> Vec<u8> {
    Vec::new()
}

pub(super) fn events(_reply: &Reply, _meta: &ReplyMeta) -> Vec<u8> {
    Vec::new()
}

pub(super) fn error(fault: &Fault) -> Vec<u8> {
    super::chat::error(fault)
}

pub(super) fn error_event(fault: &Fault) -> Vec<u8> {
    super::chat::error_event(fault)
}
