//! A text in the place of bytes that are gone.
//!
//! Where the rest of a body is malformed, the fault tells line, column or field. To tell the same as
//! if the whole body were here, a text with the same members, as many entries and lines as long
//! stands for the bytes that were known.

use super::layout::{Member, Value};
use super::watch::Checkpoint;
use crate::protocol::Parts;

/// A body that ends in the same fault of form as one that begins with what is known up to this
/// checkpoint and goes on with `rest`.
pub(super) fn body<P: Parts>(head: &[Member<P>], known: Checkpoint, rest: &[u8]) -> Vec<u8> {
    let mut text = String::from("{");
    for member in head {
        let name = &*member.name;
        match &member.value {
            Value::Short(written) => text.push_str(written),
            Value::Tools(_) => text.push_str(&format!("\"{name}\":[]")),
            Value::Standing(_) => text.push_str(&format!("\"{name}\":\"\"")),
        }
        text.push(',');
    }
    text.push_str(&format!("\"{}\":[", P::LIST));
    for entry in 0..known.entries {
        text.push_str(if entry == 0 { "{}" } else { ",{}" });
    }
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let more = known.lines.ends.saturating_sub(ends);
    text.extend(std::iter::repeat_n('\n', more));
    let column = text.len() - text.rfind('\n').map_or(0, |last| last + 1);
    text.extend(std::iter::repeat_n(' ', known.lines.column.saturating_sub(column)));
    [text.as_bytes(), rest].concat()
}
