//! Streams of a process's events: `Start` and `Connect`, with keepalives and planted faults.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::sync::mpsc;

use super::connect::{self, HEAD_BYTES, Refusal};
use super::control;
use super::envd::meet;
use super::faults::{Does, On};
use super::process;
use super::program::Program;
use super::world::{Place, World};

/// Envelopes that the connection may be behind.
const ENVELOPES: usize = 16;
/// Time between keepalives when the client asks for none.
const KEEPALIVE: Duration = Duration::from_secs(90);

type Piece = Result<Bytes, std::io::Error>;

pub(super) async fn start(
    world: Arc<World>,
    place: Arc<Place>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let limit = milliseconds(&headers, "connect-timeout-ms");
    let begun = {
        let (world, place) = (world.clone(), place.clone());
        move || {
            let (program, events) = Program::start(&world, &place, &connect::request(&body)?)?;
            if let Some(limit) = limit {
                // It holds also when nobody listens.
                let program = program.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(limit).await;
                    program.kill();
                });
            }
            Ok(events)
        }
    };
    streamed(&world, On::Start, place, &headers, limit, begun).await
}

pub(super) async fn attach(
    world: Arc<World>,
    place: Arc<Place>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let keep = world.options.keep_ended;
    let begun = {
        let place = place.clone();
        move || {
            let selector = &connect::request(&body)?["process"];
            let program = process::chosen(&place, selector);
            let program = program.filter(|program| program.remembered(keep));
            program.map(|program| program.listen()).ok_or_else(|| process::absent(selector))
        }
    };
    streamed(&world, On::Attach, place, &headers, None, begun).await
}

async fn streamed(
    world: &World,
    on: On,
    place: Arc<Place>,
    headers: &HeaderMap,
    limit: Option<Duration>,
    begin: impl FnOnce() -> Result<mpsc::Receiver<Bytes>, Refusal>,
) -> Response {
    let interval = headers.get("keepalive-ping-interval").and_then(|value| value.to_str().ok());
    let interval = interval.and_then(|value| value.parse().ok()).map(Duration::from_secs_f64);
    let keepalive = interval.unwrap_or(KEEPALIVE);
    let right = |does: Option<Does>| match begin() {
        Ok(events) => {
            let (sender, receiver) = mpsc::channel(ENVELOPES);
            let play = Play { sender, does, keepalive, limit, sent: 0 };
            tokio::spawn(play.run(events, place.clone()));
            body(receiver)
        }
        // An error of a stream is in its last envelope, under status 200.
        Err(refusal) => typed(Body::from(refusal.envelope())),
    };
    match meet(world, on, &place) {
        Err(response) => response,
        Ok(Some(Does::Die { after_ms })) => {
            let (doomed, response) = (place.clone(), right(None));
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            world.remove(&doomed.id);
            response
        }
        Ok(Some(does)) if in_stream(&does) => right(Some(does)),
        Ok(Some(does)) => control::faulty(does, || right(None)).await,
        Ok(None) => right(None),
    }
}

fn in_stream(does: &Does) -> bool {
    use Does::{Cut, EndError, NoEnd, Silent};
    matches!(does, Cut { .. } | NoEnd { .. } | EndError { .. } | Silent { .. })
}

fn milliseconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    let value: u64 = headers.get(name)?.to_str().ok()?.parse().ok()?;
    (value > 0).then(|| Duration::from_millis(value))
}

fn typed(body: Body) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/connect+json")], body).into_response()
}

fn body(receiver: mpsc::Receiver<Piece>) -> Response {
    let pieces = stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    typed(Body::from_stream(pieces))
}

/// One stream on its way.
struct Play {
    sender: mpsc::Sender<Piece>,
    does: Option<Does>,
    keepalive: Duration,
    limit: Option<Duration>,
    sent: usize,
}

impl Play {
    async fn run(mut self, mut events: mpsc::Receiver<Bytes>, place: Arc<Place>) {
        let mut death = pin!(place.death.notified());
        death.as_mut().enable();
        let limit = self.limit.unwrap_or(Duration::from_secs(1 << 30));
        let mut limit = pin!(tokio::time::sleep(limit));
        let mut ticks = tokio::time::interval(self.keepalive);
        ticks.reset();
        while !place.gone() {
            if self.spoiled().await {
                return;
            }
            let listening = self.sender.clone();
            let piece = tokio::select! {
                biased;
                () = &mut death => break,
                () = listening.closed() => return,
                () = &mut limit => {
                    let late = Refusal::new("deadline_exceeded", "the process's time is up");
                    self.send(late.envelope()).await;
                    return;
                }
                event = events.recv() => event,
                _ = ticks.tick() => Some(connect::message(&json!({"event": {"keepalive": {}}}))),
            };
            match piece {
                Some(piece) => self.send(piece).await,
                None => {
                    self.send(connect::end()).await;
                    return;
                }
            }
        }
        self.cut().await;
    }

    async fn send(&mut self, piece: Bytes) {
        self.sent += 1;
        // Who went away is noticed by the loop.
        let _ = self.sender.send(Ok(piece)).await;
    }

    async fn cut(&self) {
        let _ = self.sender.send(Err(std::io::Error::other("cut on demand"))).await;
    }

    /// Does what was planted once enough was sent; whether the stream is over.
    async fn spoiled(&mut self) -> bool {
        match self.does.take() {
            Some(Does::Cut { after }) if self.sent >= after => {
                let whole = connect::message(&json!({"event": {"keepalive": {}}}));
                let _ = self.sender.send(Ok(whole.slice(..HEAD_BYTES + 3))).await;
                // What was written must not be overtaken by the cut.
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.cut().await;
                true
            }
            Some(Does::NoEnd { after }) if self.sent >= after => true,
            Some(Does::EndError { after, code, message }) if self.sent >= after => {
                let end = json!({"error": {"code": code, "message": message}});
                let _ = self.sender.send(Ok(connect::last(&end))).await;
                true
            }
            Some(Does::Silent { after }) if self.sent >= after => {
                self.sender.closed().await;
                true
            }
            does => {
                self.does = does;
                false
            }
        }
    }
}

/// The same answer, its body a byte at a time.
pub(super) async fn dripping(response: Response, every_ms: u64) -> Response {
    let (head, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a body of our own is whole");
    let pieces = stream::unfold(bytes, move |mut bytes| async move {
        if bytes.is_empty() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(every_ms)).await;
        let first = bytes.split_to(1);
        Some((Ok::<_, std::io::Error>(first), bytes))
    });
    Response::from_parts(head, Body::from_stream(pieces))
}
