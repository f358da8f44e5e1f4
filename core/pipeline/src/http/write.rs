//! Writing replies to agents and requests to engines.

use bytes::Bytes;

/// `100 Continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A whole reply. `extra` are further headers, name and value.
pub fn reply(
    _status: u16,
    _content_type: &str,
    _body: &[u8],
    _keep_alive: bool,
    _extra: &[(&str, &str)],
) -> Bytes {
    todo!()
}
/// Head of an event stream (200, chunked).
pub fn events_head(_keep_alive: bool) -> Bytes {
    todo!()
}
/// One piece of a chunked body.
pub fn chunk(_data: &[u8]) -> Bytes {
    todo!()
}
/// The end of a chunked body.
pub fn last_chunk() -> Bytes {
    todo!()
}
/// Head of a `POST` with a JSON body of this length.
pub fn request_head(
    _host: &str,
    _path: &str,
    _body_bytes: usize,
    _extra: &[(&str, &str)],
) -> Bytes {
    todo!()
}
