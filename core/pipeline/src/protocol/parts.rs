//! Requests read part by part.
//!
//! A body is an object. Of its members, the list of what was said, the tools and the standing
//! instructions are long and mostly the same from request to request; the others are short, and
//! together are the *frame*. Each part is read without looking at another one, so that one that was
//! read before can stand for its bytes; then the parts make a request, with the same outcome as
//! reading the whole body, faults included.

use std::rc::Rc;

use super::{Past, json};
use crate::fault::Fault;
use crate::turn::Asked;

/// Something that was read, or why it cannot be served.
pub(crate) type Read<T> = Result<Rc<T>, Fault>;

/// The parts of a request.
pub(crate) struct Whole<'a, P: Parts + ?Sized> {
    /// Everything but the other parts.
    pub(crate) frame: P::Frame,
    /// The list of tools, where there is one.
    pub(crate) tools: Option<Read<P::Tools>>,
    /// Standing instructions beside the list of messages, where there are such.
    pub(crate) standing: Option<Read<P::Standing>>,
    /// What was said, entry by entry, up to the first that cannot be served; none: there is no list.
    pub(crate) entries: Option<&'a [Rc<P::Entry>]>,
    /// Why the entry after those cannot be served.
    pub(crate) bad: Option<Fault>,
}

/// A dialect whose requests can be read part by part.
///
/// Functions that read answer `None` where reading the whole body would end in a fault of its form:
/// that one must be read to say which.
pub(crate) trait Parts: 'static {
    /// Name of the member that lists what was said.
    const LIST: &'static str;
    /// Name of the member with standing instructions.
    const STANDING: Option<&'static str>;
    /// Where the order of members says nothing: the member of which that holds, too.
    const UNORDERED: Option<&'static str> = None;
    /// Members that are short.
    type Frame;
    /// A list of tools.
    type Tools: 'static;
    /// Standing instructions.
    type Standing: 'static;
    /// An entry of the list of what was said.
    type Entry: 'static;
    /// What one request leaves for the next one.
    type Trace;
    /// What all requests of a session share.
    type Pool: Default;

    /// Reads the frame, an object.
    fn frame(text: &str) -> Option<Self::Frame>;
    /// Reads a list of tools.
    fn tools(text: &str) -> Option<Read<Self::Tools>>;
    /// Reads standing instructions, a text or a list.
    fn standing(text: &str, tools: Option<&Self::Tools>) -> Option<Read<Self::Standing>>;
    /// Reads the entry at this index.
    fn entry(text: &str, index: usize, tools: Option<&Self::Tools>) -> Option<Read<Self::Entry>>;
    /// Whether these instructions would be read otherwise with other tools.
    fn standing_depends(_standing: &Self::Standing) -> bool {
        false
    }
    /// Whether this entry would be read otherwise with other tools.
    fn entry_depends(_entry: &Self::Entry) -> bool {
        false
    }
    /// Whether an entry is standing instructions, which sessions share.
    fn entry_is_standing(_entry: &Self::Entry) -> bool {
        false
    }
    /// Makes the request. `before` is what an earlier request left whose entries began like these,
    /// and how many entries of the two are the same.
    fn asked(
        whole: Whole<'_, Self>,
        past: &dyn Past,
        before: Option<(&Self::Trace, usize)>,
        pool: &mut Self::Pool,
    ) -> Result<(Asked, Self::Trace), Fault>;
    /// Reads a body up to where form does not matter any more: the fault that it ends in.
    fn form_fault(body: &[u8]) -> Option<Fault>;
}

/// Reads a part; none: it is malformed.
pub(super) fn slice<'de, T: serde::Deserialize<'de>>(text: &'de str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// The fault that reading a body of this type ends in.
pub(super) fn fault_of<T: serde::de::DeserializeOwned>(body: &[u8]) -> Option<Fault> {
    json::read::<T>(body).err()
}
