//! Asking once, however often it takes: what agents' clients do.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rollgate_shards::sim::{TcpStream, chance, note, now_ns, pick, sleep, timeout};
use serde_json::{Value, json};

use crate::answer;
use crate::ledger::numbers;
use crate::node::AGENTS;
use crate::stage::{Got, SessionOf, Stage};
use crate::wire::{Reply, Wire};

/// Longest time that any attempt may take: more than all deadlines together.
const STUCK: Duration = Duration::from_secs(400);
/// Most attempts for one answer.
const ATTEMPTS: u32 = 30;

/// A client of one session.
pub struct Client {
    pub stage: Rc<Stage>,
    pub session: Rc<SessionOf>,
    kept: Option<Wire>,
}

/// How a request is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Now and then in two pieces, with seconds between them.
    Any,
    /// Now and then in two pieces.
    Brisk,
    /// In one piece.
    Straight,
}

/// How an attempt went.
enum Attempt {
    Replied(Reply, Wire),
    /// The connection broke.
    Cut,
    /// The agent left.
    Left,
    Stuck,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoAnswer;

impl Client {
    pub fn new(stage: &Rc<Stage>, session: &Rc<SessionOf>) -> Self {
        Self { stage: stage.clone(), session: session.clone(), kept: None }
    }

    /// Asks until there is an answer. `patient`: it does not leave by itself.
    pub async fn ask(
        &mut self,
        ask: u64,
        messages: &[Value],
        patient: bool,
    ) -> Result<Value, NoAnswer> {
        let request = self.request(messages, chance(400));
        for _ in 0..ATTEMPTS {
            let leaves = !patient && !self.stage.healthy.get() && chance(self.stage.plan.leaves);
            match self.attempt(ask, &request, leaves).await {
                Attempt::Replied(reply, wire) => match self.judge(ask, &reply)? {
                    Some(message) => {
                        self.after(reply, wire).await;
                        return Ok(message);
                    }
                    None => sleep(Duration::from_millis(pick(50..1_500))).await,
                },
                Attempt::Cut => sleep(Duration::from_millis(pick(20..1_000))).await,
                Attempt::Left => {
                    if chance(80) {
                        return Err(NoAnswer);
                    }
                    self.come_back(ask).await;
                }
                Attempt::Stuck => {
                    self.stage.broke(format!("ask {ask} was not answered within {STUCK:?}"));
                    return Err(NoAnswer);
                }
            }
        }
        Err(NoAnswer)
    }

    async fn come_back(&self, ask: u64) {
        let ms = if chance(800) { pick(300..1_500) } else { pick(1..20_000) };
        // Before the node can have noticed, or after it has given up.
        if ms < 300 || ms + 1_000 > self.stage.plan.grace_ms {
            self.stage.excuse(ask);
        }
        sleep(Duration::from_millis(ms)).await;
    }

    async fn attempt(&mut self, ask: u64, request: &[u8], leaves: bool) -> Attempt {
        let mut wire = match self.kept.take().filter(|_| chance(800)) {
            Some(wire) => wire,
            None => match TcpStream::connect(SocketAddr::from(AGENTS)).await {
                Ok(stream) => Wire::new(stream),
                Err(_) => return Attempt::Cut,
            },
        };
        wire.sent_ns = None;
        note("ask", [ask, wire.stream.number()]);
        self.waits(ask, Some(now_ns()));
        let limit = match leaves {
            true => Duration::from_millis(if chance(500) { pick(1..200) } else { pick(1..6_000) }),
            false => STUCK,
        };
        let outcome = within(limit, exchange(&mut wire, request, self.pace(ask))).await;
        self.waits(ask, None);
        match outcome {
            Some(Ok(reply)) => {
                note("reply", [ask, reply.status.into()]);
                Attempt::Replied(reply, wire)
            }
            Some(Err(_)) => {
                note("cut", [ask, 0]);
                Attempt::Cut
            }
            None if leaves => {
                let reset = chance(500);
                note("leave", [ask, reset.into()]);
                self.left(ask, &wire);
                if reset {
                    wire.stream.reset();
                }
                Attempt::Left
            }
            None => Attempt::Stuck,
        }
    }

    /// Who comes back for an answer must have asked for it before the grace period is over.
    fn pace(&self, ask: u64) -> Pace {
        match self.stage.asks.borrow()[ask as usize].left.is_empty() {
            _ if self.stage.healthy.get() => Pace::Straight,
            true => Pace::Any,
            false => Pace::Brisk,
        }
    }

    /// An agent leaves. Where its request cannot have been read yet, it has taken nothing over from
    /// the one that left before: that one's grace period goes on.
    fn left(&self, ask: u64, wire: &Wire) {
        let now_ns = now_ns();
        let read = wire.sent_ns.is_some_and(|sent_ns| now_ns - sent_ns > 300_000_000);
        let again = !self.stage.asks.borrow()[ask as usize].left.is_empty();
        if again && !read {
            self.stage.excuse(ask);
        }
        self.stage.asks.borrow_mut()[ask as usize].left.push(now_ns);
    }

    fn waits(&self, ask: u64, since_ns: Option<u64>) {
        self.stage.asks.borrow_mut()[ask as usize].waits_since = since_ns;
    }

    /// The message of an answer; `None`: it is to be asked again.
    fn judge(&self, ask: u64, reply: &Reply) -> Result<Option<Value>, NoAnswer> {
        let told = || String::from_utf8_lossy(&reply.body).into_owned();
        match reply.status {
            200 => match answer::read(reply) {
                Ok((message, _)) => {
                    self.received(ask, &message);
                    Ok(Some(message))
                }
                Err(_) if reply.streams() => Ok(None),
                Err(reason) => {
                    self.stage.broke(format!("ask {ask}: an answer is none: {reason}: {}", told()));
                    Err(NoAnswer)
                }
            },
            429 | 502..=504 => {
                // One that is late may have waited for others.
                if reply.status != 504 && !self.stage.is_troubled(ask) {
                    self.stage.broke(format!("ask {ask}: a fault without a cause: {}", told()));
                }
                Ok(None)
            }
            _ if self.session.closing.get() || self.session.lost.get() => Err(NoAnswer),
            // A journal that cannot be written or read on a bad disk.
            500 if self.stage.plan.faults.full_disk > 0 => Ok(None),
            status => {
                self.stage.broke(format!("ask {ask} was answered with {status}: {}", told()));
                Err(NoAnswer)
            }
        }
    }

    fn received(&self, ask: u64, message: &Value) {
        self.stage.answered.set(self.stage.answered.get() + 1);
        let content = message["content"].as_str().unwrap_or_default().to_owned();
        for number in numbers(content.as_bytes()) {
            let got = Got { session: self.session.number, ask, number, content: content.clone() };
            self.stage.got.borrow_mut().push(got);
        }
    }

    /// What follows an answer on its connection.
    async fn after(&mut self, reply: Reply, mut wire: Wire) {
        if !reply.keeps() {
            return;
        }
        if wire.ahead {
            wire.ahead = false;
            match within(STUCK, wire.reply()).await {
                Some(Ok(second)) if second.status == 200 => {}
                Some(Ok(second)) => {
                    let status = second.status;
                    self.stage.broke(format!("a request sent ahead was answered with {status}"));
                }
                Some(Err(_)) => return,
                None => return self.stage.broke("a request that was sent ahead was not answered"),
            }
        }
        if chance(700) {
            self.kept = Some(wire);
        }
    }

    fn request(&self, messages: &[Value], stream: bool) -> Vec<u8> {
        let tools = json!([{"type": "function", "function": {"name": "bash",
            "description": "Runs a command.", "parameters": {"type": "object",
            "properties": {"command": {"type": "string"}}}}}]);
        let body = json!({"model": "any", "messages": messages, "tools": tools, "stream": stream});
        let body = body.to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {}\r\n\
             content-length: {}\r\n\r\n",
            self.session.key.expose(),
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Sends a request, now and then with another one right behind it, and reads the reply.
async fn exchange(wire: &mut Wire, request: &[u8], pace: Pace) -> io::Result<Reply> {
    let ahead = pace != Pace::Straight && chance(120);
    if ahead {
        let next = b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n";
        wire.ahead = true;
        wire.stream.send(&[request, &next[..]].concat()).await?;
    } else if pace != Pace::Straight && chance(200) {
        let (first, rest) = request.split_at(pick(0..request.len() as u64) as usize);
        wire.stream.send(first).await?;
        let micros =
            if pace == Pace::Any && chance(100) { pick(10..2_400_000) } else { pick(10..20_000) };
        sleep(Duration::from_micros(micros)).await;
        wire.stream.send(rest).await?;
    } else {
        wire.stream.send(request).await?;
    }
    wire.sent_ns = Some(now_ns());
    wire.reply().await
}

/// The outcome of `work`, or `None` when it takes longer.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    timeout(limit, work).await.ok()
}
