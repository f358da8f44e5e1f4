//! The listener: HTTP/1.1 and HTTP/2 on one port, and which sandbox a call is for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, http::StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use super::faults::Fault;
use super::world::World;
use super::{control, envd};

/// Time between two looks for sandboxes whose time is up.
const TIDY: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 4_096;

/// On an answer that is never sent: its connection is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutOff;

/// Listens and serves for as long as the runtime lives.
pub(super) async fn listen(world: Arc<World>) -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket can be made");
    socket.set_reuseaddr(true).expect("an address may be used again");
    socket.bind(world.options.listen).expect("the address can be bound");
    let listener = socket.listen(BACKLOG).expect("the socket can listen");
    let address = listener.local_addr().expect("it has an address");
    let router = router(world.clone());
    tokio::spawn(accept(listener, router, world.clone()));
    tokio::spawn(async move {
        while !world.over.load(Ordering::Acquire) {
            tokio::time::sleep(TIDY).await;
            let world = world.clone();
            let tidied = tokio::task::spawn_blocking(move || world.tidy()).await;
            tidied.expect("dead sandboxes can be removed");
        }
    });
    address
}

fn router(world: Arc<World>) -> Router {
    let plant = {
        let world = world.clone();
        move |Json(fault): Json<Fault>| async move {
            world.faults.plant(fault);
            StatusCode::NO_CONTENT
        }
    };
    let stats = {
        let world = world.clone();
        move || async move {
            let (connections, requests) = world.traffic();
            let (peak, sandboxes) = (world.peak(), world.living().len());
            Json(serde_json::json!({"peak": peak, "sandboxes": sandboxes,
                "connections": connections, "requests": requests}))
        }
    };
    control::routes(world.options.versions)
        .merge(envd::routes())
        .route("/_faults", post(plant))
        .route("/_stats", get(stats))
        .layer(axum::extract::DefaultBodyLimit::max(256 << 20))
        .with_state(world)
}

async fn accept(listener: TcpListener, router: Router, world: Arc<World>) {
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // No file descriptor is free: some will be.
                eprintln!("e2b-server: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        world.connections.fetch_add(1, Ordering::Relaxed);
        stream.set_nodelay(true).expect("a socket can be told not to wait");
        let (router, world) = (router.clone(), world.clone());
        tokio::spawn(async move {
            match &world.identity {
                None => talk(stream, router, &world).await,
                Some(identity) => match identity.acceptor.accept(stream).await {
                    Ok(stream) => talk(stream, router, &world).await,
                    Err(error) => eprintln!("e2b-server: {error}"),
                },
            }
        });
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    world: &World,
) {
    let service = service_fn(|request| {
        world.requests.fetch_add(1, Ordering::Relaxed);
        served(router.clone(), request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(world.options.streams);
    // How a connection ends is the client's business.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Finds the sandbox of a call, and cuts where an answer says so.
async fn served(
    router: Router,
    request: hyper::Request<hyper::body::Incoming>,
) -> std::io::Result<Response> {
    let Ok(response) = router.oneshot(addressed(request.map(Body::new))).await;
    match response.extensions().get::<CutOff>() {
        Some(CutOff) => Err(std::io::Error::other("cut on demand")),
        None => Ok(response),
    }
}

/// Names the sandbox in the header, if the path or the host has it.
fn addressed(mut request: Request) -> Request {
    let path = request.uri().path_and_query().map(|path| path.as_str().to_owned());
    let path = path.unwrap_or_default();
    if let Some(rest) = path.strip_prefix("/sandbox/") {
        let mut parts = rest.splitn(3, '/');
        let (id, _port, rest) = (parts.next(), parts.next(), parts.next());
        let uri: Uri = format!("/{}", rest.unwrap_or_default()).parse().expect("a part of a path");
        let id = HeaderValue::from_str(id.unwrap_or_default()).expect("a part of a path");
        request.headers_mut().insert("e2b-sandbox-id", id);
        *request.uri_mut() = uri;
        return request;
    }
    if let Some(id) = host(request.headers(), request.uri()) {
        request.headers_mut().insert("e2b-sandbox-id", id);
    }
    request
}

fn host(headers: &HeaderMap, uri: &Uri) -> Option<HeaderValue> {
    let host = headers.get("host").and_then(|host| host.to_str().ok()).or_else(|| uri.host())?;
    let (label, _) = host.split_once('.')?;
    let (port, id) = label.split_once('-')?;
    port.parse::<u16>().ok()?;
    HeaderValue::from_str(id).ok()
}
