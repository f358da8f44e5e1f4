//! Ids and opaque texts of our own items.
//!
//! An id is a prefix for readers, the exchange, and for calls their place: `fc_EXCHANGE_0`. Opaque
//! reasoning is `rg1_EXCHANGE`. Agents may keep, change or drop them; what does not look like one of
//! ours is somebody else's.

use std::fmt;

/// Begins the opaque content of reasoning.
const BLOB: &str = "rg1_";

/// Hex digits of an exchange's id.
const EXCHANGE_DIGITS: usize = 32;

/// What an id of ours stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark<'a> {
    /// Id of the exchange.
    pub exchange: &'a str,
    /// What of its reply.
    pub part: Part,
}

/// A part of a reply that is an item of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The reasoning.
    Reasoning,
    /// The text.
    Message,
    /// The call at this place.
    Call(usize),
}

impl<'a> Mark<'a> {
    /// What this id stands for, if it is ours.
    pub(super) fn read(id: &'a str) -> Option<Self> {
        let (prefix, rest) = id.split_once('_')?;
        let (exchange, place) = match rest.split_once('_') {
            Some((exchange, place)) => (exchange, Some(place.parse().ok()?)),
            None => (rest, None),
        };
        let part = match (prefix, place) {
            ("rs", None) => Part::Reasoning,
            ("msg", None) => Part::Message,
            ("fc" | "ctc" | "tsc" | "lsh", Some(place)) => Part::Call(place),
            _ => return None,
        };
        is_exchange(exchange).then_some(Self { exchange, part })
    }
}

/// The exchange that opaque content of ours names.
pub(super) fn exchange_of_blob(blob: &str) -> Option<&str> {
    blob.strip_prefix(BLOB).filter(|exchange| is_exchange(exchange))
}

/// Opaque content of an exchange's reasoning.
pub(super) fn blob(exchange: impl fmt::Display) -> String {
    format!("{BLOB}{exchange}")
}

/// The number that the digits of an exchange's id are.
pub(super) fn number(exchange: &str) -> u128 {
    u128::from_str_radix(exchange, 16).unwrap_or_default()
}

fn is_exchange(id: &str) -> bool {
    id.len() == EXCHANGE_DIGITS && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ours_or_not() {
        let exchange = "0123456789abcdef0123456789abcdef";
        let part = |id: String| Mark::read(&id).map(|mark| mark.part);
        assert_eq!(part(format!("rs_{exchange}")), Some(Part::Reasoning));
        assert_eq!(part(format!("msg_{exchange}")), Some(Part::Message));
        assert_eq!(part(format!("fc_{exchange}_12")), Some(Part::Call(12)));
        assert_eq!(part(format!("ctc_{exchange}_0")), Some(Part::Call(0)));
        for id in ["", "msg_1", "fc_", "_", "msg_01234567-89ab-cdef-0123-456789abcdef"] {
            assert_eq!(part(id.to_owned()), None, "{id}");
        }
        for id in [format!("fc_{exchange}"), format!("msg_{exchange}_0"), format!("x_{exchange}")] {
            assert_eq!(part(id.clone()), None, "{id}");
        }
        assert_eq!(exchange_of_blob(&blob(exchange)), Some(exchange));
        assert_eq!(exchange_of_blob("gAAAAABo"), None);
        assert_eq!(exchange_of_blob("rg1_0123"), None);
    }
}
