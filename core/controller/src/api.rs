//! The control port: sessions, rewards and samples over HTTP, described at `/openapi.json`.
//!
//! Every answer but the exports is JSON; an error is `{"error": {"code", "message"}}`. All paths but
//! `/healthz` and `/readyz` need the bearer token. Bodies and times are bounded.

mod auth;
mod create;
mod error;
mod export;
mod metrics;
mod openapi;
mod ready;
mod sessions;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::FutureExt;
use rollgate_shards::Gate;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::limits;
use crate::reach::BaseUrls;
use error::ApiError;

/// What the control port is started with.
#[derive(Clone)]
pub struct ApiConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The bearer token. Not empty.
    pub token: String,
    /// Root URL under which agents reach the gateway; `None`: at the gate's address.
    pub public_url: Option<String>,
    /// Name of the served model.
    pub model: String,
    /// Name of the node.
    pub node: String,
}

/// Why the control port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its address cannot be used.
    #[error("cannot listen on {addr} for control: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The token is empty.
    #[error("the control token is empty; set one or leave it out to have one made")]
    NoToken,
}

/// A control port that listens and is not served yet.
pub struct Api {
    config: ApiConfig,
    listener: TcpListener,
    addr: SocketAddr,
}

/// What handlers share.
#[derive(Clone)]
struct Shared(Arc<Parts>);

struct Parts {
    gate: Gate,
    token: blake3::Hash,
    urls: BaseUrls,
    model: String,
    node: String,
    /// Journals that are read at once.
    collects: Semaphore,
}

impl std::ops::Deref for Shared {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Listens and serves until `shutdown` ends.
pub async fn serve(
    config: ApiConfig,
    gate: Gate,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    Api::bind(config).await?.serve(gate, shutdown).await
}

impl Api {
    /// Takes the address.
    pub async fn bind(config: ApiConfig) -> Result<Self, ServeError> {
        if config.token.is_empty() {
            return Err(ServeError::NoToken);
        }
        let failed = |source| ServeError::Listen { addr: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok(Self { config, listener, addr })
    }

    /// The address, port settled.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `shutdown` ends; then requests in flight get [`limits::API_DRAIN`].
    pub async fn serve(
        self,
        gate: Gate,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let parts = Parts {
            urls: BaseUrls::new(self.config.public_url.as_deref(), gate.agents_addr()),
            token: blake3::hash(self.config.token.as_bytes()),
            model: self.config.model,
            node: self.config.node,
            collects: Semaphore::new(limits::COLLECTS),
            gate,
        };
        let router = router(Shared(Arc::new(parts)));
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let signal = async move {
            shutdown.await;
            let _ = ended.send(());
        };
        let served = axum::serve(self.listener, router).with_graceful_shutdown(signal);
        let late = async {
            let _ = has_ended.await;
            tokio::time::sleep(limits::API_DRAIN).await;
        };
        tokio::select! {
            result = served.into_future() => result
                .map_err(|source| ServeError::Listen { addr: self.addr, source }),
            () = late => Ok(()),
        }
    }
}

fn router(shared: Shared) -> Router {
    let open = Router::new().route("/healthz", get(healthz)).route("/readyz", get(ready::readyz));
    let closed = Router::new()
        .route("/v1/sessions", post(create::create).get(sessions::list))
        .route("/v1/sessions/{id}", get(sessions::show).delete(sessions::forget))
        .route("/v1/sessions/{id}/reward", post(sessions::reward))
        .route("/v1/sessions/{id}/close", post(sessions::close))
        .route("/v1/sessions/{id}/samples", get(export::samples))
        .route("/v1/sessions/{id}/turns", get(export::turns))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::openapi))
        .fallback(unknown_path)
        .layer(from_fn_with_state(shared.clone(), auth::token));
    open.merge(closed)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limits::API_BODY_BYTES))
        .layer(from_fn(bounded))
        .with_state(shared)
}

/// Every request ends in time, and a panic is an answer too.
async fn bounded(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(limits::API_REQUEST, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => ApiError::internal("a bug in Rollgate; its log has more").into_response(),
        Err(_) => {
            let what = format!("no answer within {:?}", limits::API_REQUEST);
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout", what).into_response()
        }
    }
}

async fn unknown_path(uri: Uri) -> ApiError {
    let what = format!("there is nothing at {}; see /openapi.json", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "unknown_path", what)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let what = format!("{} cannot be called with {method}; see /openapi.json", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", what)
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "node", responses((status = 200, body = String)))]
async fn healthz() -> &'static str {
    "ok\n"
}
