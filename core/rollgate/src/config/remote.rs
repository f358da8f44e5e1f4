//! `[backends.docker]` and `[backends.e2b]`: sandboxes that are not plain directories of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rollgate_backends::Resources;
use rollgate_backends::docker::{DEFAULT_CAPABILITIES, DockerConfig};
use rollgate_backends::e2b::{ApiVersion, E2bConfig, HttpVersion, Program, Route};
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// `[backends.docker]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Docker {
    /// Socket or address of the engine; empty: `DOCKER_HOST`, else the usual socket.
    pub host: String,
    /// Image of sandboxes whose task names none; a path is a folder with a Dockerfile.
    pub image: String,
    /// Pull images that the engine has not.
    pub pull: bool,
    /// `bridge`, `host`, or the name of a network of the engine.
    pub network: String,
    /// User of commands; empty: the image's.
    pub user: String,
    /// Work directory inside; empty: the image's.
    pub workdir: String,
    /// A statically linked `rollgate` for sandboxes; empty: this very program.
    pub rollgate: PathBuf,
    /// What commands may do beyond plain programs.
    pub capabilities: Vec<String>,
    /// Containers that are made at once.
    pub in_flight: usize,
    /// Longest making of a sandbox; preparing its image not included.
    pub create_timeout_s: u64,
    /// Limits of a sandbox whose task has none; 0: none.
    pub cpus: f64,
    /// The same.
    pub memory_mib: u64,
    /// The same.
    pub disk_mib: u64,
    /// The same; 0: the backend's own number.
    pub pids: u32,
}

/// `[backends.e2b]`
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct E2b {
    /// Key of the control plane; empty: the environment's `E2B_API_KEY`.
    #[serde(skip_serializing)]
    pub api_key: String,
    /// Domain of the service.
    pub domain: String,
    /// Base URL of the control plane; empty: `https://api.DOMAIN`.
    pub api_url: String,
    /// Base URL of a sandbox's daemon; empty: as `route` says.
    pub sandbox_url: String,
    /// Host header of calls to a sandbox; empty: that of the URL.
    pub sandbox_host: String,
    /// How calls find their sandbox.
    pub route: E2bRoute,
    /// Which paths of the control plane are called.
    pub api_version: E2bApi,
    /// What is spoken on connections.
    pub http: E2bHttp,
    /// Headers of every call.
    #[serde(skip_serializing)]
    pub headers: BTreeMap<String, String>,
    /// Whether certificates are checked.
    pub tls_verify: bool,
    /// Template of sandboxes whose task names none.
    pub template: String,
    /// User of commands; empty: the template's.
    pub user: String,
    /// User that unpacks mounts; empty: the same.
    pub mount_user: String,
    /// HOME; empty: the sandbox is asked.
    pub home: String,
    /// Work directory inside; empty: `work` in HOME.
    pub workdir: String,
    /// What runs our scripts.
    pub shell: Vec<String>,
    /// A statically linked `rollgate` to upload; empty: the template has it.
    pub rollgate: PathBuf,
    /// How long a sandbox outlives a Rollgate that was killed.
    pub ttl_s: u64,
    /// Sandboxes that are being started at once.
    pub creates_in_flight: usize,
    /// Time between signs of life of a command.
    pub keepalive_s: u64,
    /// Longest call with one answer.
    pub request_s: u64,
    /// Longest single try of a create.
    pub create_s: u64,
    /// Longest start of a sandbox.
    pub start_s: u64,
    /// Longest wait for the service to have room.
    pub quota_wait_s: u64,
    /// How long a command may be out of reach.
    pub reattach_s: u64,
    /// How long a killed command may take to end.
    pub kill_grace_s: u64,
}

/// How calls find their sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum E2bRoute {
    /// One host; headers name the sandbox.
    #[default]
    Headers,
    /// A host name for each sandbox.
    Host,
    /// A path for each sandbox.
    Path,
}

/// Which paths of the control plane are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum E2bApi {
    /// The new ones, and old ones where the server lacks them.
    #[default]
    Auto,
    /// Those without `/v2`.
    V1,
    /// Those with `/v2`.
    V2,
}

/// What is spoken on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum E2bHttp {
    /// What the server chooses.
    #[default]
    Auto,
    /// HTTP/1.1.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2.
    #[serde(rename = "2")]
    Http2,
}

impl Default for Docker {
    fn default() -> Self {
        let usual = DockerConfig::new(PathBuf::new());
        Self {
            host: String::new(),
            image: String::new(),
            pull: usual.pull,
            network: usual.network,
            user: String::new(),
            workdir: String::new(),
            rollgate: PathBuf::new(),
            capabilities: DEFAULT_CAPABILITIES.map(str::to_owned).to_vec(),
            in_flight: usual.in_flight,
            create_timeout_s: usual.create_timeout.as_secs(),
            cpus: 0.0,
            memory_mib: 0,
            disk_mib: 0,
            pids: 0,
        }
    }
}

impl Default for E2b {
    fn default() -> Self {
        let usual = E2bConfig::new("");
        Self {
            api_key: String::new(),
            domain: usual.domain,
            api_url: String::new(),
            sandbox_url: String::new(),
            sandbox_host: String::new(),
            route: E2bRoute::default(),
            api_version: E2bApi::default(),
            http: E2bHttp::default(),
            headers: BTreeMap::new(),
            tls_verify: usual.tls_verify,
            template: usual.template,
            user: String::new(),
            mount_user: usual.mount_user.unwrap_or_default(),
            home: String::new(),
            workdir: String::new(),
            shell: usual.shell,
            rollgate: PathBuf::new(),
            ttl_s: usual.ttl.as_secs(),
            creates_in_flight: usual.creates_in_flight,
            keepalive_s: usual.keepalive.as_secs(),
            request_s: usual.request.as_secs(),
            create_s: usual.create.as_secs(),
            start_s: usual.start.as_secs(),
            quota_wait_s: usual.quota_wait.as_secs(),
            reattach_s: usual.reattach.as_secs(),
            kill_grace_s: usual.kill_grace.as_secs(),
        }
    }
}

/// Without its secrets.
impl std::fmt::Debug for E2b {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let api = (&self.api_url, &self.sandbox_url);
        f.debug_struct("E2b")
            .field("domain", &self.domain)
            .field("api", &api)
            .finish_non_exhaustive()
    }
}

/// `None` for what was not said.
fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Docker {
    /// Says which key cannot work.
    pub(super) fn check(
        self,
        wrong: &impl Fn(&str, String) -> ConfigError,
    ) -> Result<Self, ConfigError> {
        if !(self.cpus >= 0.0 && self.cpus.is_finite()) {
            let message = format!("{} is not a number of cores", self.cpus);
            return Err(wrong("backends.docker.cpus", message));
        }
        if self.in_flight == 0 {
            return Err(wrong("backends.docker.in_flight", "must be at least 1".to_owned()));
        }
        Ok(self)
    }

    /// Limits of a sandbox.
    pub fn resources(&self) -> Resources {
        Resources {
            cpus: (self.cpus > 0.0).then_some(self.cpus),
            memory_mib: (self.memory_mib > 0).then_some(self.memory_mib),
            disk_mib: (self.disk_mib > 0).then_some(self.disk_mib),
            pids: (self.pids > 0).then_some(self.pids),
        }
    }

    /// The backend's own form; `own` is this very program.
    pub fn backend(&self, own: PathBuf) -> DockerConfig {
        DockerConfig {
            host: said(&self.host),
            image: said(&self.image),
            pull: self.pull,
            rollgate: if self.rollgate.as_os_str().is_empty() {
                own
            } else {
                self.rollgate.clone()
            },
            network: self.network.clone(),
            user: said(&self.user),
            workdir: said(&self.workdir),
            resources: self.resources(),
            capabilities: self.capabilities.clone(),
            in_flight: self.in_flight,
            create_timeout: Duration::from_secs(self.create_timeout_s),
        }
    }
}

impl E2b {
    /// Says which key cannot work.
    pub(super) fn check(
        self,
        wrong: &impl Fn(&str, String) -> ConfigError,
    ) -> Result<Self, ConfigError> {
        if self.creates_in_flight == 0 {
            return Err(wrong("backends.e2b.creates_in_flight", "must be at least 1".to_owned()));
        }
        if self.ttl_s < 10 {
            return Err(wrong("backends.e2b.ttl_s", "must be at least 10".to_owned()));
        }
        Ok(self)
    }

    /// The backend's own form; `key` stands for a key that is not in the file.
    pub fn backend(&self, key: String) -> E2bConfig {
        let usual =
            E2bConfig::new(if self.api_key.is_empty() { key } else { self.api_key.clone() });
        E2bConfig {
            domain: self.domain.clone(),
            api_url: said(&self.api_url),
            sandbox_url: said(&self.sandbox_url),
            sandbox_host: said(&self.sandbox_host),
            route: match self.route {
                E2bRoute::Headers => Route::Headers,
                E2bRoute::Host => Route::Host,
                E2bRoute::Path => Route::Path,
            },
            api_version: match self.api_version {
                E2bApi::Auto => ApiVersion::Auto,
                E2bApi::V1 => ApiVersion::V1,
                E2bApi::V2 => ApiVersion::V2,
            },
            http: match self.http {
                E2bHttp::Auto => HttpVersion::Auto,
                E2bHttp::Http1 => HttpVersion::Http1,
                E2bHttp::Http2 => HttpVersion::Http2,
            },
            headers: self.headers.clone().into_iter().collect(),
            tls_verify: self.tls_verify,
            template: self.template.clone(),
            user: said(&self.user),
            mount_user: said(&self.mount_user),
            home: said(&self.home),
            workdir: said(&self.workdir),
            shell: self.shell.clone(),
            rollgate: match self.rollgate.as_os_str().is_empty() {
                true => usual.rollgate,
                false => Program::Upload(self.rollgate.clone()),
            },
            ttl: Duration::from_secs(self.ttl_s),
            creates_in_flight: self.creates_in_flight,
            keepalive: Duration::from_secs(self.keepalive_s),
            request: Duration::from_secs(self.request_s),
            create: Duration::from_secs(self.create_s),
            start: Duration::from_secs(self.start_s),
            quota_wait: Duration::from_secs(self.quota_wait_s),
            reattach: Duration::from_secs(self.reattach_s),
            kill_grace: Duration::from_secs(self.kill_grace_s),
            api_key: usual.api_key,
        }
    }
}
