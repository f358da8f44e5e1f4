//! A server that speaks E2B's protocol and runs what it is asked to run, on this machine.
//!
//! Both planes are on one port: the control plane (`/sandboxes`, `/v2/sandboxes`) and, per sandbox,
//! envd's files, processes and file system. A sandbox is a private directory; `/home/user` means its
//! home wherever a path is part of the protocol. Commands are real processes that carry a marker,
//! by which whatever they leave behind is killed with their sandbox. Which sandbox a call is for is
//! told by `E2b-Sandbox-Id`, by a host of the form `49983-ID.anything`, or by a path that begins
//! with `/sandbox/ID/49983`. What E2B's own edge does wrong now and then is done on demand (`Fault`).

mod connect;
mod control;
mod envd;
pub mod faults;
mod files;
mod filesystem;
mod paths;
mod process;
mod program;
mod serve;
mod stream;
mod sweep;
mod tls;
mod world;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use faults::{Does, Fault, On};
use world::World;

/// Which paths of the control plane are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// Old and new ones.
    #[default]
    Both,
    /// Only those without `/v2`; the new create and connect are answered 404.
    Old,
    /// As `Old`, but with 405, as servers answer whose router knows the path for other methods.
    OldNotAllowed,
    /// Only those with `/v2`, where there is one.
    New,
}

/// How the server behaves throughout.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Which paths there are.
    pub versions: Versions,
    /// What is reported as `envdVersion`.
    pub envd_version: String,
    /// Streams that one HTTP/2 connection may have open.
    pub streams: u32,
    /// How long the end of a process can be asked for after it ended.
    pub keep_ended: Duration,
    /// Longest life that may be asked for.
    pub max_ttl: Duration,
    /// Entries of one page of a list, at most.
    pub page: usize,
    /// Sandboxes at once; one more is answered 429.
    pub quota: usize,
    /// Wait for `sleep N` at the end of a command in the server, then run the command with
    /// `sleep 0`. For measurements with thousands of commands only: the processes are real, but
    /// they do not all exist at once.
    pub builtin_sleep: bool,
    /// Speak TLS, with a certificate made for the occasion.
    pub tls: bool,
    /// A folder of this machine that every sandbox may use beside its own.
    pub shared: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 0).into(),
            versions: Versions::default(),
            envd_version: "0.6.13".to_owned(),
            streams: 100,
            keep_ended: Duration::from_secs(60),
            max_ttl: Duration::from_secs(24 * 3600),
            page: 100,
            quota: usize::MAX,
            builtin_sleep: false,
            tls: false,
            shared: None,
        }
    }
}

/// A running server. Dropping it ends it, its sandboxes and their processes.
#[derive(Debug)]
pub struct E2bServer {
    /// Its base URL, for both planes.
    pub url: String,
    world: Arc<World>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl E2bServer {
    /// Starts a server on threads of its own.
    pub fn start(options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("e2b-server")
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let world = Arc::new(World::new(options));
        let address = runtime.block_on(serve::listen(world.clone()));
        let scheme = if world.options.tls { "https" } else { "http" };
        Self { url: format!("{scheme}://{address}"), world, runtime: Some(runtime) }
    }

    /// The certificate of a server that speaks TLS.
    pub fn certificate(&self) -> &str {
        &self.world.identity.as_ref().expect("the server speaks TLS").pem
    }

    /// Plants a fault; it stays until it happened as often as it says.
    pub fn plant(&self, fault: Fault) {
        self.world.faults.plant(fault);
    }

    /// Plants a fault that happens once.
    pub fn once(&self, on: On, does: Does) {
        self.plant(Fault { on, times: 1, skip: 0, does });
    }

    /// How many calls of this kind came in so far.
    pub fn seen(&self, on: On) -> u64 {
        self.world.faults.seen(on)
    }

    /// Ids of the sandboxes that live now.
    pub fn sandboxes(&self) -> Vec<String> {
        self.world.living().iter().map(|place| place.id.clone()).collect()
    }

    /// What a living sandbox was made with.
    pub fn metadata(&self, id: &str) -> Option<Vec<(String, String)>> {
        let place = self.world.find(id)?;
        Some(place.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Time that a living sandbox has left.
    pub fn left(&self, id: &str) -> Option<Duration> {
        self.world.find(id).map(|place| place.left())
    }

    /// Kills a sandbox as a failing machine does: without a word to anybody.
    pub fn kill(&self, id: &str) {
        self.world.remove(id);
    }

    /// Connections that were accepted so far, and requests that came on them.
    pub fn traffic(&self) -> (u64, u64) {
        self.world.traffic()
    }

    /// Most processes that ran at once, those included that wait in the server.
    pub fn peak(&self) -> u64 {
        self.world.peak()
    }

    /// Processes of sandboxes of this server, dead sandboxes included.
    pub fn processes(&self) -> Vec<i32> {
        sweep::marked(&self.world.marker())
    }
}

impl Drop for E2bServer {
    fn drop(&mut self) {
        self.world.end();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
        sweep::kill(&self.world.marker());
    }
}
