//! Where a message ends, by its header fields.
//!
//! What two readers could read differently is refused: that is how requests are smuggled.

use httparse::Header;

/// How a body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// No body. Of a reply: no length was given.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// HTTP version of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    Http10,
    Http11,
}

impl Version {
    /// From httparse's minor version.
    pub(super) fn of(minor: Option<u8>) -> Self {
        if minor == Some(0) { Version::Http10 } else { Version::Http11 }
    }
}

/// Reads `Content-Length` and `Transfer-Encoding`. Equal lengths may be repeated as fields, never
/// as a list.
pub(super) fn framing(version: Version, fields: &[Header<'_>]) -> Result<Framing, &'static str> {
    let mut length = None;
    let mut chunked = false;
    for field in fields {
        if field.name.eq_ignore_ascii_case("content-length") {
            let this = digits(field.value).ok_or("Content-Length is not a decimal number")?;
            if length.is_some_and(|other| other != this) {
                return Err("there are two Content-Length fields that differ");
            }
            length = Some(this);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err("Transfer-Encoding is not exactly `chunked`");
            }
            chunked = true;
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err("both Content-Length and Transfer-Encoding are present"),
        (None, true) if version == Version::Http10 => Err("HTTP/1.0 has no Transfer-Encoding"),
        (None, true) => Ok(Framing::Chunked),
        (Some(bytes), false) => Ok(Framing::Length(bytes)),
        (None, false) => Ok(Framing::None),
    }
}

/// Whether the connection stays open after this message.
pub(super) fn keep_alive(version: Version, fields: &[Header<'_>]) -> bool {
    let says = |token| names(fields, "connection", token);
    !says("close") && (version == Version::Http11 || says("keep-alive"))
}

/// Whether a field of this name lists this token.
pub(super) fn names(fields: &[Header<'_>], name: &str, token: &str) -> bool {
    fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case(name))
        .flat_map(|field| field.value.split(|&byte| byte == b','))
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Whether every line feed of a head follows a carriage return. Bare ones are legal to accept, but
/// readers differ in whether they do.
pub(super) fn lines_end_in_crlf(head: &[u8]) -> bool {
    let mut before = 0;
    for &byte in head {
        if byte == b'\n' && before != b'\r' {
            return false;
        }
        before = byte;
    }
    true
}

/// A decimal number without sign or blanks.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
