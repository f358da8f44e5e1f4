//! Connections: requests in, answers out, one after the other on each connection.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use rollgate_pipeline::http::{BodyReader, BodyState, CONTINUE, RequestHead, read_head, reply};

use super::answer::{Answer, Delivery};
use super::ledger::add;
use super::signal::Signal;
use super::stage::Stage;
use super::{Shape, sglang, vllm};

/// Largest request body.
const BODY_BYTES: u64 = 256 << 20;
/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Wait after a connection that could not be accepted, as when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// At the end: how often, and how long apart, it is looked whether all connections are gone.
const LEAVE_LOOKS: u32 = 500;
const LEAVE_PAUSE: Duration = Duration::from_millis(2);

/// Accepts connections until the engine is stopped; then drops what they were doing.
pub(super) async fn serve(
    listener: std::net::TcpListener,
    stage: Rc<Stage>,
    shape: Shape,
    ready: impl FnOnce(),
) -> io::Result<()> {
    // epoll needs sockets that never block; io_uring waits only on those that do.
    listener.set_nonblocking(monoio::utils::is_legacy())?;
    let listener = TcpListener::from_std(listener)?;
    let crowd = Rc::new(Crowd::default());
    ready();
    loop {
        monoio::select! {
            () = stage.ledger.stop.wait() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    monoio::spawn(attend(stream, Rc::clone(&stage), shape, Rc::clone(&crowd)));
                }
                Err(error) => {
                    tracing::warn!(%error, "the scripted engine cannot accept a connection");
                    monoio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    crowd.dismiss().await;
    Ok(())
}

async fn attend(stream: TcpStream, stage: Rc<Stage>, shape: Shape, crowd: Rc<Crowd>) {
    let leave = crowd.enter();
    monoio::select! {
        () = leave.wait() => {}
        // A connection that breaks is its caller's end of the call.
        _ = converse(stream, &stage, shape) => {}
    }
    crowd.left(&leave);
}

/// The connections there are, each with the switch that ends it. The runtime does not drop tasks
/// when it ends, so they are told to go.
#[derive(Default)]
struct Crowd(RefCell<Vec<Rc<Signal>>>);

impl Crowd {
    fn enter(&self) -> Rc<Signal> {
        let leave = Rc::new(Signal::default());
        self.0.borrow_mut().push(Rc::clone(&leave));
        leave
    }

    fn left(&self, gone: &Rc<Signal>) {
        self.0.borrow_mut().retain(|leave| !Rc::ptr_eq(leave, gone));
    }

    async fn dismiss(&self) {
        self.0.borrow().iter().for_each(|leave| leave.raise());
        for _ in 0..LEAVE_LOOKS {
            if self.0.borrow().is_empty() {
                return;
            }
            monoio::time::sleep(LEAVE_PAUSE).await;
        }
        tracing::warn!("the scripted engine ended before its connections did");
    }
}

async fn converse(stream: TcpStream, stage: &Stage, shape: Shape) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut wire = Wire { stream, read: BytesMut::new(), piece: vec![0; PIECE_BYTES] };
    loop {
        let request = match wire.request().await? {
            Incoming::Request(request) => request,
            Incoming::End => return Ok(()),
            Incoming::Unsound(message) => {
                add(&stage.ledger.counters.refused, 1);
                let body = serde_json::json!({"detail": message});
                let bytes = bytes_of(&Answer::json(400, &body), false);
                return wire.write(bytes).await;
            }
        };
        let keep_alive = request.head.keep_alive;
        let answer = match shape {
            Shape::Vllm => vllm::answer(stage, &request).await,
            Shape::Sglang => sglang::answer(stage, &request).await,
        };
        if !wire.deliver(&answer, keep_alive, stage).await? {
            return Ok(());
        }
    }
}

/// A whole request.
pub(super) struct Request {
    pub(super) head: RequestHead,
    pub(super) body: Bytes,
}

impl Request {
    /// The path without the query.
    pub(super) fn path(&self) -> &str {
        self.head.target.split('?').next().unwrap_or_default()
    }
}

enum Incoming {
    Request(Request),
    End,
    Unsound(String),
}

struct Wire {
    stream: TcpStream,
    read: BytesMut,
    piece: Vec<u8>,
}

impl Wire {
    async fn request(&mut self) -> io::Result<Incoming> {
        let head = loop {
            match read_head(&mut self.read) {
                Ok(Some(head)) => break head,
                Ok(None) if self.more().await? => {}
                Ok(None) => return Ok(Incoming::End),
                Err(fault) => return Ok(Incoming::Unsound(fault.message)),
            }
        };
        let mut body = match BodyReader::new(head.framing, BODY_BYTES) {
            Ok(body) => body,
            Err(fault) => return Ok(Incoming::Unsound(fault.message)),
        };
        if head.expect_continue {
            self.write(CONTINUE.to_vec()).await?;
        }
        loop {
            match body.read(&mut self.read) {
                Ok(BodyState::Done) => {
                    return Ok(Incoming::Request(Request { head, body: body.into_bytes() }));
                }
                Ok(BodyState::More) if self.more().await? => {}
                Ok(BodyState::More) => return Ok(Incoming::End),
                Err(fault) => return Ok(Incoming::Unsound(fault.message)),
            }
        }
    }

    /// Reads a piece; `false` at the end of the stream.
    async fn more(&mut self) -> io::Result<bool> {
        let (result, piece) = self.stream.read(std::mem::take(&mut self.piece)).await;
        let count = result?;
        self.read.extend_from_slice(&piece[..count]);
        self.piece = piece;
        Ok(count > 0)
    }

    async fn write(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let (result, _) = self.stream.write_all(bytes).await;
        result.map(|_| ())
    }

    /// Writes the answer in its way; whether another request may follow.
    async fn deliver(
        &mut self,
        answer: &Answer,
        keep_alive: bool,
        stage: &Stage,
    ) -> io::Result<bool> {
        let mut bytes = bytes_of(answer, keep_alive);
        match answer.delivery {
            Delivery::Whole => self.write(bytes).await?,
            Delivery::Stall(ms) => {
                let rest = bytes.split_off(bytes.len() / 2);
                self.write(bytes).await?;
                monoio::time::sleep(Duration::from_millis(ms)).await;
                self.write(rest).await?;
            }
            Delivery::CloseAfter(count) => {
                bytes.truncate(count);
                self.write(bytes).await?;
                self.stream.shutdown().await?;
                return Ok(false);
            }
            Delivery::Die => {
                stage.ledger.stop.raise();
                return Ok(false);
            }
        }
        Ok(keep_alive)
    }
}

fn bytes_of(answer: &Answer, keep_alive: bool) -> Vec<u8> {
    reply(answer.status, answer.content_type, &answer.body, keep_alive, &[]).into()
}
