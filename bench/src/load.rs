//! Load: simulated agents over all three dialects, and the engine that they are answered by, on one
//! thread of their own. Every answer is checked against what the engine said.

mod book;
mod dialect;
mod fast;
mod intake;
mod lane;
mod shape;
mod stock;
#[cfg(test)]
mod tests;
mod tools;
mod words;

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt as _;
use hdrhistogram::Histogram;
use rollgate_pipeline::render::Model;

pub use book::{Chain, Faults};
pub use dialect::Dialect;
pub use shape::{Limit, Shape, Sizes};

use book::Book;
use dialect::Opening;
use lane::{Lane, Scene, Tally};
use stock::Stock;
use tools::Tools;
use words::Words;

use crate::engine::driver;

/// How load and engine are started.
#[derive(Clone)]
pub struct LoadConfig {
    /// The model whose tokens are sampled.
    pub model: Arc<Model>,
    /// Longest prompt plus answer that the engine claims to take.
    pub max_context: u32,
    /// Decides every text and every answer.
    pub seed: u64,
}

/// Why load or engine did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The answers cannot be made with this model.
    #[error("the bench cannot speak for this model: {0}")]
    Model(String),
    /// No port, no thread, no driver.
    #[error("load and engine cannot run: {0}")]
    Environment(#[from] std::io::Error),
    /// The thread is gone.
    #[error("the thread of load and engine is gone; see the log above")]
    Gone,
}

/// What is sent where.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Who is asked.
    pub target: SocketAddr,
    /// Sizes and turns.
    pub shape: Shape,
    /// The form of requests.
    pub dialect: Dialect,
    /// Whether answers are streams.
    pub stream: bool,
    /// Whether the engine itself is asked, which answers everything in Chat's form.
    pub direct: bool,
    /// Mean pause of an agent between turns.
    pub think: Duration,
    /// Keys for each connection, one for each of its sessions. Their number is that of connections.
    pub keys: Vec<Vec<String>>,
}

/// What came of a window.
#[derive(Clone, Debug)]
pub struct Window {
    /// From the first request to the last answer.
    pub wall: Duration,
    /// Turns that were answered rightly.
    pub turns: u64,
    /// Latencies in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Bytes of their requests' bodies.
    pub request_bytes: u64,
    /// Of these, bytes that the request before did not have.
    pub new_bytes: u64,
    /// Turns that failed, warm-up included.
    pub errors: u64,
    /// The first of them.
    pub error: Option<String>,
    /// What the engine found wrong.
    pub faults: Faults,
    /// Conversations as the engine knows them, by connection and key.
    pub told: Vec<Vec<Vec<Told>>>,
}

/// A conversation for the checks of samples.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Its number.
    pub conversation: u64,
    /// What was sent and said; `None` where the engine was never asked.
    pub chain: Option<Chain>,
}

/// What an answer sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Its ids.
    pub ids: Vec<u32>,
    /// Their log-probabilities.
    pub logprobs: Vec<f32>,
}

enum Command {
    Prepare(Traffic, mpsc::Sender<()>),
    Measure(Duration, mpsc::Sender<Window>),
    Sampled { conversation: u64, turns: u32, answer: mpsc::Sender<Vec<Sampled>> },
}

/// Load and engine at work; dropping it ends them.
pub struct Load {
    engine: SocketAddr,
    commands: Option<UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts the thread. It runs on the cores that the caller may run on.
    pub fn start(config: LoadConfig) -> Result<Self, LoadError> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let engine = listener.local_addr()?;
        let (commands, orders) = unbounded();
        let (started, outcome) = mpsc::channel();
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(move || {
            let ran = Player::new(&config)
                .and_then(|player| Ok(driver::run(player.play(listener, orders, &started))??));
            if let Err(error) = ran {
                // Fails where it had started: then the next command finds it gone.
                let _ = started.send(Err(error));
            }
        })?;
        let load = Self { engine, commands: Some(commands), thread: Some(thread) };
        outcome.recv().map_err(|_| LoadError::Gone)??;
        Ok(load)
    }

    /// Where the engine listens.
    pub fn engine(&self) -> SocketAddr {
        self.engine
    }

    /// Connects and warms up: everything that does not count. Returns when that is done.
    pub fn prepare(&self, traffic: Traffic) -> Result<(), LoadError> {
        let (done, outcome) = mpsc::channel();
        self.order(Command::Prepare(traffic, done))?;
        outcome.recv().map_err(|_| LoadError::Gone)
    }

    /// Measures until every connection has made the shape's turns or `longest` is over. `tick` is
    /// called about every so often.
    pub fn measure(
        &self,
        longest: Duration,
        every: Duration,
        mut tick: impl FnMut(),
    ) -> Result<Window, LoadError> {
        let (done, outcome) = mpsc::channel();
        self.order(Command::Measure(longest, done))?;
        loop {
            match outcome.recv_timeout(every) {
                Ok(window) => return Ok(window),
                Err(mpsc::RecvTimeoutError::Timeout) => tick(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(LoadError::Gone),
            }
        }
    }

    /// What was sampled in the first turns of a conversation.
    pub fn sampled(&self, conversation: u64, turns: u32) -> Result<Vec<Sampled>, LoadError> {
        let (answer, outcome) = mpsc::channel();
        self.order(Command::Sampled { conversation, turns, answer })?;
        outcome.recv().map_err(|_| LoadError::Gone)
    }

    fn order(&self, command: Command) -> Result<(), LoadError> {
        let commands = self.commands.as_ref().ok_or(LoadError::Gone)?;
        commands.unbounded_send(command).map_err(|_| LoadError::Gone)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.commands = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of load and engine panicked");
        }
    }
}

/// What the thread has.
struct Player {
    engine: Rc<fast::Engine>,
    book: Rc<Book>,
    words: Rc<Words>,
    seed: u64,
    next_conversation: Rc<Cell<u64>>,
    lanes: Vec<Lane>,
    scene: Option<Rc<Scene>>,
}

impl Player {
    fn new(config: &LoadConfig) -> Result<Self, LoadError> {
        let words = Rc::new(Words::new(config.seed));
        let stock = Stock::new(&config.model, &words, config.seed).map_err(LoadError::Model)?;
        let book = Rc::new(Book::new(stock, config.seed));
        let engine = Rc::new(fast::Engine {
            book: Rc::clone(&book),
            model: Arc::clone(&config.model),
            max_context: config.max_context,
            large: Default::default(),
        });
        let next_conversation = Rc::new(Cell::new(1));
        let seed = config.seed;
        Ok(Self { engine, book, words, seed, next_conversation, lanes: Vec::new(), scene: None })
    }

    async fn play(
        mut self,
        listener: TcpListener,
        mut orders: UnboundedReceiver<Command>,
        started: &mpsc::Sender<Result<(), LoadError>>,
    ) -> std::io::Result<()> {
        let listener = monoio::net::TcpListener::from_std(listener)?;
        monoio::spawn(fast::serve(listener, Rc::clone(&self.engine)));
        // Who cannot be told does not wait any more; that holds for every answer here.
        let _ = started.send(Ok(()));
        while let Some(command) = orders.next().await {
            match command {
                Command::Prepare(traffic, done) => {
                    self.prepare(traffic).await.map_err(std::io::Error::other)?;
                    let _ = done.send(());
                }
                Command::Measure(longest, done) => {
                    if let Some(window) = self.measure(longest).await {
                        let _ = done.send(window);
                    }
                }
                Command::Sampled { conversation, turns, answer } => {
                    let _ = answer
                        .send((0..turns).map(|turn| self.sampled(conversation, turn)).collect());
                }
            }
        }
        Ok(())
    }

    async fn prepare(&mut self, traffic: Traffic) -> Result<(), hdrhistogram::CreationError> {
        let sizes = traffic.shape.sizes();
        self.book.reply_tokens.set(sizes.reply_tokens);
        let tools = Tools::new(&self.words, self.seed, sizes.shared);
        let moves = traffic.shape == Shape::Moved && traffic.dialect == Dialect::Messages;
        let model = &self.engine.model.name;
        let dialect = traffic.dialect;
        let scene = Rc::new(Scene {
            target: traffic.target,
            path: if traffic.direct { Dialect::Chat.path() } else { dialect.path() }.to_owned(),
            opening: Opening::new(dialect, traffic.stream, model, &tools, moves),
            reads: if traffic.direct { Dialect::Chat } else { dialect },
            sizes,
            book: Rc::clone(&self.book),
            words: Rc::clone(&self.words),
            seed: self.seed,
            next_conversation: Rc::clone(&self.next_conversation),
            think: traffic.think,
            tally: Tally::new()?,
        });
        let same = self.scene.as_ref().is_some_and(|before| before.target == traffic.target);
        if !same || self.lanes.len() != traffic.keys.len() {
            let first = self.next_conversation.get();
            let numbers = first..first + traffic.keys.len() as u64;
            self.lanes = numbers.map(|number| Lane::new(&scene, number)).collect();
        }
        let mut under_way = Vec::new();
        for (mut lane, keys) in self.lanes.drain(..).zip(traffic.keys) {
            let scene = Rc::clone(&scene);
            under_way.push(monoio::spawn(async move {
                lane.prepare(&scene, keys).await;
                lane
            }));
        }
        for lane in under_way {
            self.lanes.push(lane.await);
        }
        self.scene = Some(scene);
        Ok(())
    }

    async fn measure(&mut self, longest: Duration) -> Option<Window> {
        let scene = self.scene.clone()?;
        let started = Instant::now();
        let until = started + longest;
        let mut under_way = Vec::new();
        for mut lane in self.lanes.drain(..) {
            let scene = Rc::clone(&scene);
            under_way.push(monoio::spawn(async move {
                lane.measure(&scene, until).await;
                lane
            }));
        }
        for lane in under_way {
            self.lanes.push(lane.await);
        }
        let wall = started.elapsed();
        let told = |number: &u64| Told { conversation: *number, chain: self.book.close(*number) };
        let tally = &scene.tally;
        Some(Window {
            wall,
            turns: tally.turns.get(),
            latency_ns: tally.latency_ns.borrow().clone(),
            request_bytes: tally.request_bytes.get(),
            new_bytes: tally.new_bytes.get(),
            errors: tally.errors.get(),
            error: tally.error.borrow().clone(),
            faults: self.book.faults(),
            told: self
                .lanes
                .iter()
                .map(|lane| {
                    lane.told.iter().map(|told_to| told_to.iter().map(told).collect()).collect()
                })
                .collect(),
        })
    }

    fn sampled(&self, conversation: u64, turn: u32) -> Sampled {
        let picked = self.book.reply(book::Place { conversation, turn });
        let (mut ids, mut logprobs) = (Vec::new(), Vec::new());
        for piece in self.book.stock.said(&picked) {
            ids.extend_from_slice(&piece.ids);
            logprobs.extend_from_slice(&piece.logprobs);
        }
        Sampled { ids, logprobs }
    }
}
