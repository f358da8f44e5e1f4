//! One simulated agent: a connection and the conversations that it goes through.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use monoio::buf::IoBuf as _;
use monoio::io::AsyncWriteRentExt as _;
use monoio::net::TcpStream;

use super::book::{Book, Place};
use super::dialect::{Answer, Body, Opening};
use super::intake::Replies;
use super::shape::Sizes;
use super::words::{Rng, Words};

/// Longest latency that is told apart, in nanoseconds.
const MOST_NS: u64 = 600_000_000_000;

/// What all lanes of a phase share.
pub(crate) struct Scene {
    pub(crate) target: SocketAddr,
    /// Path of a request.
    pub(crate) path: String,
    pub(crate) opening: Opening,
    /// How answers are read: not the lane's dialect where the engine is asked directly.
    pub(crate) reads: super::Dialect,
    pub(crate) sizes: Sizes,
    pub(crate) book: Rc<Book>,
    pub(crate) words: Rc<Words>,
    pub(crate) seed: u64,
    pub(crate) next_conversation: Rc<Cell<u64>>,
    pub(crate) think: Duration,
    pub(crate) tally: Tally,
}

/// What is counted in a window.
pub(crate) struct Tally {
    pub(crate) latency_ns: RefCell<Histogram<u64>>,
    pub(crate) turns: Cell<u64>,
    pub(crate) request_bytes: Cell<u64>,
    pub(crate) new_bytes: Cell<u64>,
    pub(crate) errors: Cell<u64>,
    /// The first error in words.
    pub(crate) error: RefCell<Option<String>>,
}

impl Tally {
    pub(crate) fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            latency_ns: RefCell::new(Histogram::new_with_bounds(1, MOST_NS, 3)?),
            turns: Cell::default(),
            request_bytes: Cell::default(),
            new_bytes: Cell::default(),
            errors: Cell::default(),
            error: RefCell::default(),
        })
    }

    fn failed(&self, error: String) {
        self.errors.set(self.errors.get() + 1);
        self.error.borrow_mut().get_or_insert(error);
    }
}

/// A conversation under way.
struct Conversation {
    place: Place,
    body: Body,
    answer: Answer,
    /// Bytes of the request before.
    before: usize,
}

/// A simulated agent.
pub(crate) struct Lane {
    keys: Vec<String>,
    /// The head of requests with the key in use, up to the length.
    head: Vec<u8>,
    stream: Option<TcpStream>,
    replies: Replies,
    rng: Rng,
    scratch: String,
    conversation: Conversation,
    /// Conversations by key, in their order.
    pub(crate) told: Vec<Vec<u64>>,
    /// Whether it went wrong: then it stands still until the phase is over.
    pub(crate) broken: bool,
}

impl Lane {
    pub(crate) fn new(scene: &Scene, number: u64) -> Self {
        Self {
            keys: Vec::new(),
            head: Vec::new(),
            stream: None,
            replies: Replies::default(),
            rng: Rng::new(scene.seed ^ (number << 20)),
            scratch: String::new(),
            conversation: Conversation {
                place: Place { conversation: 0, turn: 0 },
                body: Body::default(),
                answer: Answer::default(),
                before: 0,
            },
            told: Vec::new(),
            broken: false,
        }
    }

    /// Begins a phase with these keys: everything that is not counted.
    pub(crate) async fn prepare(&mut self, scene: &Scene, keys: Vec<String>) {
        self.told = vec![Vec::new(); keys.len()];
        self.keys = keys;
        self.broken = false;
        if scene.sizes.warm_turns == 0 {
            return;
        }
        self.begin(scene, 0);
        for warm in 0..=scene.sizes.warm_turns {
            if !self.exchange(scene, false).await {
                return;
            }
            let last = warm == scene.sizes.warm_turns;
            self.extend(scene, if last { scene.sizes.new_bytes } else { scene.sizes.warm_bytes });
        }
    }

    /// The counted turns, until they are done or time is up.
    pub(crate) async fn measure(&mut self, scene: &Scene, until: Instant) {
        let sizes = scene.sizes;
        if sizes.warm_turns > 0 {
            for turn in 0..sizes.turns {
                if turn > 0 {
                    self.extend(scene, sizes.new_bytes);
                }
                if self.is_over(until) || !self.exchange(scene, true).await {
                    return;
                }
                self.think(scene).await;
            }
            return;
        }
        for key in 0..self.keys.len() {
            for _ in 0..sizes.conversations {
                if self.is_over(until) {
                    return;
                }
                self.begin(scene, key);
                if !self.exchange(scene, true).await {
                    return;
                }
                self.think(scene).await;
            }
        }
    }

    fn is_over(&self, until: Instant) -> bool {
        self.broken || Instant::now() >= until
    }

    async fn think(&mut self, scene: &Scene) {
        if !scene.think.is_zero() {
            // Exponential, so that agents do not march in step.
            let share = -(1.0 - self.rng.share()).ln();
            monoio::time::sleep(scene.think.mul_f64(share.min(10.0))).await;
        }
    }

    fn begin(&mut self, scene: &Scene, key: usize) {
        let number = scene.next_conversation.get();
        scene.next_conversation.set(number + 1);
        self.told[key].push(number);
        self.head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\nuser-agent: rollgate-bench\r\ncontent-length: ",
            scene.path, scene.target, self.keys[key]
        )
        .into_bytes();
        let talk = &mut self.conversation;
        talk.place = Place { conversation: number, turn: 0 };
        talk.before = 0;
        self.scratch.clear();
        scene.words.text(&mut self.rng, scene.sizes.opening * 19 / 20, &mut self.scratch);
        self.scratch.push_str(&talk.place.mark());
        scene.opening.begin(&self.scratch, &mut talk.body);
    }

    /// Adds the last answer and a result, so many bytes together.
    fn extend(&mut self, scene: &Scene, bytes: usize) {
        let talk = &mut self.conversation;
        talk.place.turn += 1;
        let call = talk.answer.call.as_ref();
        let echo = talk.answer.text.len() + call.map_or(0, |call| call.arguments.len()) + 200;
        self.scratch.clear();
        let fresh = (bytes.saturating_sub(echo) * 19 / 20).max(bytes / 8);
        scene.words.text(&mut self.rng, fresh, &mut self.scratch);
        self.scratch.push_str(&talk.place.mark());
        scene.opening.extend(&mut talk.body, &talk.answer, &self.scratch);
    }

    /// Sends the conversation and checks the answer. `false`: the lane is broken.
    async fn exchange(&mut self, scene: &Scene, counts: bool) -> bool {
        let length = self.conversation.body.len();
        let started = Instant::now();
        let outcome = match self.send(scene).await {
            Ok(reply) => {
                let took = started.elapsed();
                self.check(scene, &reply).map(|()| took)
            }
            Err(error) => Err(format!("{}: {error}", self.conversation.place.mark())),
        };
        let new = length - self.conversation.before;
        self.conversation.before = length;
        match outcome {
            Ok(took) => {
                if counts {
                    let tally = &scene.tally;
                    let took = u64::try_from(took.as_nanos()).unwrap_or(MOST_NS);
                    tally.latency_ns.borrow_mut().saturating_record(took);
                    tally.turns.set(tally.turns.get() + 1);
                    tally.request_bytes.set(tally.request_bytes.get() + length as u64);
                    tally.new_bytes.set(tally.new_bytes.get() + new as u64);
                }
                true
            }
            Err(error) => {
                scene.tally.failed(error);
                self.stream = None;
                self.broken = true;
                false
            }
        }
    }

    async fn send(&mut self, scene: &Scene) -> io::Result<super::intake::Reply> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.replies.clear();
                let stream = TcpStream::connect(scene.target).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let body = &mut self.conversation.body;
        let start = body.finish(&self.head);
        let bytes = std::mem::take(&mut body.bytes);
        let (result, slice) = stream.write_all(bytes.slice(start..)).await;
        body.bytes = slice.into_inner();
        body.reopen();
        result?;
        let reply = self.replies.next(&mut stream).await?;
        if reply.keeps {
            self.stream = Some(stream);
        }
        Ok(reply)
    }

    /// The answer must be what the engine says here.
    fn check(&mut self, scene: &Scene, reply: &super::intake::Reply) -> Result<(), String> {
        let place = self.conversation.place;
        let body = &self.replies.body;
        let wrong = |what: &str| {
            let text = String::from_utf8_lossy(body);
            let start: String = text.chars().take(300).collect();
            Err(format!("{}: {what}: {start}", place.mark()))
        };
        if reply.status != 200 {
            return wrong(&format!("status {}", reply.status));
        }
        let answer = match scene.reads.read(reply.events, body) {
            Ok(answer) => answer,
            Err(error) => return wrong(&error),
        };
        let picked = scene.book.reply(place);
        let mut rest = answer.text.as_str();
        for piece in scene.book.stock.said(&picked) {
            match rest.strip_prefix(&*piece.text) {
                Some(after) => rest = after,
                None => return wrong("the text is not what the engine said"),
            }
        }
        let tail = scene.book.stock.tail(&picked);
        let called = answer.call.as_ref().is_some_and(|call| {
            let same = || serde_json::from_str::<serde_json::Value>(&call.arguments).ok();
            call.name == tail.name
                && !call.id.is_empty()
                && same().as_ref() == Some(&tail.arguments)
        });
        if !rest.trim_end().is_empty() || !called || answer.more_calls > 0 {
            return wrong("text or call are not what the engine said");
        }
        if answer.finish != scene.reads.called() {
            return wrong(&format!("it ended with {:?}", answer.finish));
        }
        self.conversation.answer = answer;
        Ok(())
    }
}
