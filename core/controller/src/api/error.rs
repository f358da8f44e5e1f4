//! Errors of the control port: `{"error": {"code", "message"}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use rollgate_shards::CommandError;
use serde::Serialize;
use utoipa::ToSchema;

/// Body of every error.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: ErrorDetail,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorDetail {
    /// Stable code.
    code: &'static str,
    /// What happened and what to do.
    message: String,
}

/// An answer that is an error.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl ToString) -> Self {
        Self { status, code, message: message.to_string() }
    }

    pub(super) fn bad_request(message: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(super) fn internal(message: impl ToString) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "wrong_token", message)
    }

    pub(super) fn no_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_session", "there is no such session")
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NoSession => Self::no_session(),
            CommandError::Closed => Self::new(StatusCode::CONFLICT, "session_closed", error),
            CommandError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error),
            CommandError::Stopped => Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", error),
            CommandError::Fault(fault) => {
                let status = StatusCode::from_u16(fault.kind.status());
                let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Self::new(status, fault.kind.label(), fault)
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status;
        let error = ErrorDetail { code: self.code, message: self.message };
        let mut response = (status, Json(ErrorBody { error })).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"rollgate control\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
