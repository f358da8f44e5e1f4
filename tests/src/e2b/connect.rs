//! Connect-RPC with JSON: envelopes and errors.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

/// Bytes before the payload of an envelope.
pub(super) const HEAD_BYTES: usize = 5;
/// Flag of the last envelope of a stream.
const END: u8 = 2;

/// An error with a code of the protocol.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub code: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new("not_found", message)
    }

    fn status(&self) -> StatusCode {
        match self.code {
            "not_found" => StatusCode::NOT_FOUND,
            "already_exists" => StatusCode::CONFLICT,
            "unauthenticated" => StatusCode::UNAUTHORIZED,
            "permission_denied" => StatusCode::FORBIDDEN,
            "resource_exhausted" => StatusCode::TOO_MANY_REQUESTS,
            "unimplemented" => StatusCode::NOT_IMPLEMENTED,
            "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            "internal" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The last envelope of a stream that failed.
    pub fn envelope(&self) -> Bytes {
        envelope(END, &json!({"error": {"code": self.code, "message": self.message}}))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), Json(json!({"code": self.code, "message": self.message}))).into_response()
    }
}

fn envelope(flag: u8, message: &Value) -> Bytes {
    let payload = message.to_string();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + payload.len());
    bytes.put_u8(flag);
    bytes.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    bytes.put_slice(payload.as_bytes());
    bytes.freeze()
}

/// One message of a stream.
pub(super) fn message(message: &Value) -> Bytes {
    envelope(0, message)
}

/// The last message of a stream.
pub(super) fn last(message: &Value) -> Bytes {
    envelope(END, message)
}

/// The end of a stream that went well.
pub(super) fn end() -> Bytes {
    envelope(END, &json!({}))
}

/// The one message of the request of a stream.
pub(super) fn request(body: &[u8]) -> Result<Value, Refusal> {
    let bad = |what: &str| Refusal::new("invalid_argument", what.to_owned());
    let (head, payload) = body.split_at_checked(HEAD_BYTES).ok_or_else(|| bad("no envelope"))?;
    let length = head.iter().skip(1).fold(0, |length, byte| length << 8 | usize::from(*byte));
    if head.first() != Some(&0) || length != payload.len() {
        return Err(bad("the envelope's flags or length are wrong"));
    }
    serde_json::from_slice(payload).map_err(|error| bad(&error.to_string()))
}
