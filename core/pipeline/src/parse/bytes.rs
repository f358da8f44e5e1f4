//! Small questions about byte strings.

/// Where `part` first stands in `text`; an empty part stands nowhere.
pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let starts = text.iter().enumerate().filter(|&(_, &byte)| byte == first);
    starts.map(|(at, _)| at).find(|&at| text[at..].starts_with(part))
}

/// White space in the sense of templates.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// `bytes` without the first ones that are unwanted.
pub(super) fn without_leading(bytes: &[u8], unwanted: fn(u8) -> bool) -> &[u8] {
    let start = bytes.iter().position(|&b| !unwanted(b)).unwrap_or(bytes.len());
    &bytes[start..]
}

/// `bytes` without the last ones that are unwanted.
pub(super) fn without_trailing(bytes: &[u8], unwanted: fn(u8) -> bool) -> &[u8] {
    let end = bytes.iter().rposition(|&b| !unwanted(b)).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// `bytes` without white space at both ends.
pub(super) fn trimmed(bytes: &[u8]) -> &[u8] {
    without_trailing(without_leading(bytes, is_blank), is_blank)
}

/// Cuts a text at the stop text that ended it. Engines keep the token that completed the stop text
/// whole, so the stop text ends somewhere in the last `last_len` bytes.
pub(super) fn cut_stop(text: &mut Vec<u8>, stop: &[u8], last_len: usize) {
    let from = text.len().saturating_sub((last_len + stop.len()).saturating_sub(1));
    if let Some(at) = find(&text[from..], stop) {
        text.truncate(from + at);
    }
}
