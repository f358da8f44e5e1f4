//! Writing replies to agents and requests to engines.

use bytes::Bytes;

/// `100 Continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A whole reply. `extra` are further headers, name and value.
pub fn reply(
    status: u16,
    content_type: &str,
    body: &[u8],
    keep_alive: bool,
    extra: &[(&str, &str)],
) -> Bytes {
    let mut head = Head::new(&format!("HTTP/1.1 {status} {}", reason(status)), body.len());
    head.field("content-type", content_type);
    head.field("content-length", &body.len().to_string());
    head.connection(keep_alive);
    head.fields(extra);
    head.finish(body)
}

/// Head of an event stream (200, chunked). Proxies on the way are asked not to buffer it. `extra` are
/// further headers, name and value.
pub fn events_head(keep_alive: bool, extra: &[(&str, &str)]) -> Bytes {
    let mut head = Head::new("HTTP/1.1 200 OK", 0);
    head.field("content-type", "text/event-stream; charset=utf-8");
    head.field("cache-control", "no-cache");
    head.field("x-accel-buffering", "no");
    head.field("transfer-encoding", "chunked");
    head.connection(keep_alive);
    head.fields(extra);
    head.finish(b"")
}

/// One piece of a chunked body. Nothing for no data: an empty chunk would end the body.
pub fn chunk(data: &[u8]) -> Bytes {
    let mut out = Vec::new();
    write_chunk(&mut out, data);
    out.into()
}

/// All that is left of a chunked body in one piece of bytes: `head` as it is (of the reply, or
/// nothing), one piece of data, the end.
pub fn rest_of_chunks(head: &[u8], data: &[u8]) -> Bytes {
    const SIZE_AND_ENDS: usize = 32;
    let mut out = Vec::with_capacity(head.len() + data.len() + SIZE_AND_ENDS);
    out.extend_from_slice(head);
    write_chunk(&mut out, data);
    out.extend_from_slice(LAST_CHUNK);
    out.into()
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// The end of a chunked body.
pub fn last_chunk() -> Bytes {
    Bytes::from_static(LAST_CHUNK)
}

/// Head of a `POST` with a JSON body of this length. Only what is named here and in `extra` reaches
/// an engine: no header of an agent is passed on.
pub fn request_head(host: &str, path: &str, body_bytes: usize, extra: &[(&str, &str)]) -> Bytes {
    let mut head = Head::new(&format!("POST {} HTTP/1.1", one_line(path)), 0);
    head.field("host", host);
    head.field("content-type", "application/json");
    head.field("content-length", &body_bytes.to_string());
    head.field("accept", "application/json");
    head.field("accept-encoding", "identity");
    head.fields(extra);
    head.finish(b"")
}

struct Head(Vec<u8>);

impl Head {
    fn new(start: &str, body_bytes: usize) -> Self {
        let mut out = Vec::with_capacity(256 + body_bytes);
        out.extend_from_slice(start.as_bytes());
        out.extend_from_slice(b"\r\n");
        Self(out)
    }

    fn field(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(one_line(value).as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    fn fields(&mut self, extra: &[(&str, &str)]) {
        for (name, value) in extra {
            self.field(name, value);
        }
    }

    fn connection(&mut self, keep_alive: bool) {
        self.field("connection", if keep_alive { "keep-alive" } else { "close" });
    }

    fn finish(mut self, body: &[u8]) -> Bytes {
        self.0.extend_from_slice(b"\r\n");
        self.0.extend_from_slice(body);
        self.0.into()
    }
}

/// The value without line ends, which would begin another field.
fn one_line(value: &str) -> std::borrow::Cow<'_, str> {
    if value.contains(['\r', '\n', '\0']) {
        value.replace(['\r', '\n', '\0'], " ").into()
    } else {
        value.into()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Other",
    }
}
