//! Lines of an event stream.

/// The data of each event. The bench's peers write it on one line.
pub(super) fn data(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = body.split(|byte| *byte == b'\n');
    lines.filter_map(|line| Some(line.strip_prefix(b"data:")?.trim_ascii()))
}
