//! Sandboxes in containers of a Docker engine.
//!
//! A sandbox is one container that sleeps until its time is up; commands run beside that through
//! the engine. Its labels say which process owns it. Every call has a deadline; every container is
//! named before it is asked for, so that none is lost with an answer. No registry is asked, unless
//! the config says so.

mod command;
mod create;
mod engine;
mod files;
mod image;
mod labels;
mod limits;
mod program;
mod sandbox;
mod sweep;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::InspectNetworkOptions;
use tokio::sync::oneshot;

use crate::{Backend, BackendError, Reach, Resources, Sandbox, Spec};
use engine::Engine;

/// Which engine, and what its sandboxes are like where a spec does not say.
#[derive(Clone, PartialEq, Debug)]
pub struct DockerConfig {
    /// Address of the engine: a socket's path, `unix://PATH` or `tcp://HOST:PORT`; `None`:
    /// `DOCKER_HOST`, else the usual socket.
    pub host: Option<String>,
    /// Image of sandboxes whose spec names none. Here as in a spec, a path that begins with `/` or
    /// `./` is a folder with a Dockerfile, of which the image is built.
    pub image: Option<String>,
    /// Pull images that the engine has not.
    pub pull: bool,
    /// The `rollgate` program, absolute, on the engine's machine; mounted read-only.
    pub rollgate: PathBuf,
    /// `bridge`, `host`, `none`, or the name of a network of the engine.
    pub network: String,
    /// User of the commands, `NAME|UID[:GROUP|GID]`; `None`: the image's.
    pub user: Option<String>,
    /// Work directory inside; `None`: the image's, or one of ours where it has none.
    pub workdir: Option<String>,
    /// Limits of sandboxes whose spec has none.
    pub resources: Resources,
    /// What commands may do beyond plain programs, without `CAP_`; all else is dropped.
    pub capabilities: Vec<String>,
    /// Containers that are made, and that are removed, at once.
    pub in_flight: usize,
    /// Longest making of a sandbox, all its steps together; preparing its image not included.
    pub create_timeout: Duration,
}

/// What package managers and test suites that run as root need, and nothing that reaches the
/// machine.
pub const DEFAULT_CAPABILITIES: [&str; 8] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"];

impl DockerConfig {
    /// The usual engine, its default bridge, images named by specs.
    pub fn new(rollgate: PathBuf) -> Self {
        Self {
            host: None,
            image: None,
            pull: false,
            rollgate,
            network: "bridge".to_owned(),
            user: None,
            workdir: None,
            resources: Resources::default(),
            capabilities: DEFAULT_CAPABILITIES.map(str::to_owned).to_vec(),
            in_flight: limits::IN_FLIGHT,
            create_timeout: limits::CREATE_ALL,
        }
    }
}

/// The backend of one Docker engine.
pub struct Docker {
    engine: Arc<Engine>,
}

impl Docker {
    /// A backend; asks the engine nothing before it is used.
    pub fn new(config: DockerConfig) -> Self {
        Self { engine: Arc::new(Engine::new(config)) }
    }

    /// Asks the engine whether it is there and speaks a version we speak; its version.
    pub async fn check(&self) -> Result<String, BackendError> {
        let asked = self.engine.call(limits::ASK, bollard::Docker::version).await;
        let version = asked.map_err(|fault| self.engine.error("ask for its version", fault))?;
        Ok(version.version.unwrap_or_default())
    }
}

#[async_trait::async_trait]
impl Backend for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn isolation(&self) -> String {
        let config = &self.engine.config;
        let network = match config.network.as_str() {
            "host" => "this machine's network".to_owned(),
            "none" => "no network".to_owned(),
            name => format!("network `{name}`"),
        };
        let allowed = match config.capabilities.join(", ") {
            none if none.is_empty() => "no capabilities".to_owned(),
            some => format!("of the capabilities only {some}"),
        };
        let limit = |value: Option<u64>, unit: &str| {
            value.map_or_else(|| "unlimited".to_owned(), |value| format!("{value} {unit}"))
        };
        format!(
            "container of the Docker engine at {}: own processes and files, {network}; no new \
             privileges, {allowed}; by default memory {}, disk {}, {} processes; the kernel is \
             shared",
            self.engine.host(),
            limit(config.resources.memory_mib, "MiB"),
            limit(config.resources.disk_mib, "MiB"),
            config.resources.pids.unwrap_or(limits::DEFAULT_PIDS),
        )
    }

    async fn reach(&self) -> Result<Reach, BackendError> {
        let network = &self.engine.config.network;
        match network.as_str() {
            "host" => return Ok(Reach::Loopback),
            "none" => {
                return Err(BackendError::Unusable(
                    "sandboxes with `network = \"none\"` cannot reach the gateway; use an \
                     internal network (`docker network create --internal NAME`)"
                        .to_owned(),
                ));
            }
            _ => {}
        }
        let asked = self.engine.call(limits::ASK, |docker| {
            docker.inspect_network(network, None::<InspectNetworkOptions>)
        });
        let what = format!("look at network `{network}`");
        let found = asked.await.map_err(|fault| self.engine.error(&what, fault))?;
        let blocks = found.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        let gateways = blocks.into_iter().filter_map(|block| block.gateway);
        let mut addresses =
            gateways.filter_map(|text| text.split('/').next()?.parse::<IpAddr>().ok());
        addresses.next().map(Reach::Address).ok_or_else(|| {
            BackendError::Unusable(format!(
                "network `{network}` of the Docker engine at {} has no gateway on its machine; \
                 choose a bridge network",
                self.engine.host()
            ))
        })
    }

    async fn create(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        let image = image::ready(&self.engine, spec).await?;
        let closed = |_| BackendError::Unusable("this backend shuts down".to_owned());
        let permit = self.engine.creates.clone().acquire_owned().await.map_err(closed)?;
        let (engine, spec) = (self.engine.clone(), spec.clone());
        let (hand_over, made) = oneshot::channel();
        // From here on it is made to its end, also when the asker goes away: a call that is
        // dropped half-way leaves a container that nobody holds.
        tokio::spawn(async move {
            let made = create::make(&engine, &spec, image).await;
            drop(permit);
            if let Err(Ok(unwanted)) = hand_over.send(made)
                && let Err(error) = unwanted.destroy().await
            {
                tracing::warn!(%error, "a sandbox that nobody waits for stays until a sweep");
            }
        });
        match made.await {
            Ok(made) => Ok(Box::new(made?)),
            Err(_) => Err(BackendError::Unusable("the runtime ended meanwhile".to_owned())),
        }
    }

    async fn sweep(&self) -> Result<usize, BackendError> {
        sweep::sweep(&self.engine).await
    }
}
