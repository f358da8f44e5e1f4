//! The bearer token.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::error::ApiError;

/// Lets requests with the token through.
pub(super) async fn token(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
    match check(header, &shared.token) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Digests are compared, in constant time: neither contents nor length of the token leak.
fn check(header: Option<&[u8]>, token: &blake3::Hash) -> Result<(), ApiError> {
    let Some(header) = header else {
        return Err(ApiError::unauthorized("send `Authorization: Bearer TOKEN`"));
    };
    let given = header
        .split_at_checked(7)
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
        .map(|(_, given)| given.trim_ascii());
    let Some(given) = given else {
        return Err(ApiError::unauthorized("the scheme must be `Bearer`"));
    };
    // `blake3::Hash` compares in constant time.
    if blake3::hash(given) == *token {
        Ok(())
    } else {
        Err(ApiError::unauthorized("this is not the control token"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_opens() {
        let token = blake3::hash(b"secret");
        let opens = |header: &str| check(Some(header.as_bytes()), &token).is_ok();
        assert!(opens("Bearer secret") && opens("bearer  secret "));
        for header in ["", "secret", "Bearer", "Bearer ", "Bearer secre", "Basic secret"] {
            assert!(!opens(header), "{header:?}");
        }
        assert!(check(None, &token).is_err());
    }
}
