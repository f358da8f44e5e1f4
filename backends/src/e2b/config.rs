//! How the E2B backend is set up, and what is wrong with a set-up.

use std::path::PathBuf;
use std::time::Duration;

use crate::BackendError;

/// How calls find the sandbox that they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Route {
    /// One host for all sandboxes; headers name the sandbox. What E2B's own cloud does.
    #[default]
    Headers,
    /// A host name per sandbox, `PORT-ID.DOMAIN`.
    Host,
    /// One host, and a path per sandbox.
    Path,
}

/// Which paths of the control plane are called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ApiVersion {
    /// The new ones; where the server lacks one, the old one from then on.
    #[default]
    Auto,
    /// Only those without `/v2`.
    V1,
    /// Only those with `/v2`.
    V2,
}

/// What is spoken on connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpVersion {
    /// What the server chooses over TLS; HTTP/1.1 without TLS.
    #[default]
    Auto,
    /// HTTP/1.1: one connection for every command that runs.
    Http1,
    /// HTTP/2, without TLS too.
    Http2,
}

/// The `rollgate` program of a sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// This file of ours is uploaded before it is first run; it has to run without our libraries.
    Upload(PathBuf),
    /// The template has it at this absolute path.
    Inside(String),
}

/// Where E2B sandboxes are made, and how. Works with E2B's cloud and with servers that speak its
/// protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct E2bConfig {
    /// Key of the control plane (`X-API-Key`); never logged.
    pub api_key: String,
    /// Domain of the service; a sandbox that names another one is found there.
    pub domain: String,
    /// Base URL of the control plane; `None`: `https://api.DOMAIN`.
    pub api_url: Option<String>,
    /// Base URL of a sandbox's daemon, with `{id}`, `{port}` and `{domain}` filled in; `None`: as
    /// `route` says.
    pub sandbox_url: Option<String>,
    /// Host header of calls to a sandbox, with the same placeholders; for servers that route by
    /// host and whose wildcard names do not resolve here. `None`: the host of the URL.
    pub sandbox_host: Option<String>,
    /// How calls find their sandbox.
    pub route: Route,
    /// Which paths are called.
    pub api_version: ApiVersion,
    /// What is spoken.
    pub http: HttpVersion,
    /// Headers added to every call.
    pub headers: Vec<(String, String)>,
    /// Whether certificates are checked. `false` is for test clusters.
    pub tls_verify: bool,
    /// Template (or, on some servers, image) of sandboxes whose spec names none.
    pub template: String,
    /// User that commands run as; `None`: the template's.
    pub user: Option<String>,
    /// User that unpacks mounts; `None`: the same as `user`.
    pub mount_user: Option<String>,
    /// HOME of the user; `None`: the sandbox is asked.
    pub home: Option<String>,
    /// Work directory, made when missing; `None`: `work` in HOME.
    pub workdir: Option<String>,
    /// Words before the script that runs a command: a POSIX shell.
    pub shell: Vec<String>,
    /// The `rollgate` program.
    pub rollgate: Program,
    /// Time that the server gives a sandbox, renewed while it is held: how long one outlives a
    /// Rollgate that was killed.
    pub ttl: Duration,
    /// Time between signs of life on the stream of a command; twice as much silence ends it.
    pub keepalive: Duration,
    /// Longest call with one answer.
    pub request: Duration,
    /// Longest single try to create a sandbox.
    pub create: Duration,
    /// Longest start of a sandbox, from the first try until it can run commands.
    pub start: Duration,
    /// Longest wait for the service to have room (429), which does not count as start.
    pub quota_wait: Duration,
    /// Sandboxes that are being started at once, at most; fewer after a 429.
    pub creates_in_flight: usize,
    /// Longest time without a connection to a command before it is given up.
    pub reattach: Duration,
    /// Longest wait for a command to end once it was killed; then its sandbox is destroyed.
    pub kill_grace: Duration,
}

impl E2bConfig {
    /// E2B's cloud with this key, and defaults.
    pub fn new(api_key: impl Into<String>) -> Self {
        Self {
            api_key: api_key.into(),
            domain: "e2b.app".to_owned(),
            api_url: None,
            sandbox_url: None,
            sandbox_host: None,
            route: Route::default(),
            api_version: ApiVersion::default(),
            http: HttpVersion::default(),
            headers: Vec::new(),
            tls_verify: true,
            template: "base".to_owned(),
            user: None,
            mount_user: Some("root".to_owned()),
            home: None,
            workdir: None,
            shell: vec!["/bin/sh".to_owned(), "-c".to_owned()],
            rollgate: Program::Inside("/usr/local/bin/rollgate".to_owned()),
            ttl: Duration::from_secs(900),
            keepalive: Duration::from_secs(30),
            request: Duration::from_secs(30),
            create: Duration::from_secs(120),
            start: Duration::from_secs(300),
            quota_wait: Duration::from_secs(3600),
            creates_in_flight: 16,
            reattach: Duration::from_secs(120),
            kill_grace: Duration::from_secs(15),
        }
    }

    /// Says what cannot work, by the name of the setting.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        let wrong = |what: &str| Err(BackendError::Unusable(format!("backends.e2b: {what}")));
        if self.api_key.is_empty() {
            return wrong("`api_key` is empty; set it, or the environment's E2B_API_KEY");
        }
        let named = |template: &Option<String>| {
            template.as_deref().is_some_and(|template| template.contains("{id}"))
        };
        if self.route == Route::Path && !named(&self.sandbox_url) {
            return wrong("`route = \"path\"` needs a `sandbox_url` that contains `{id}`");
        }
        let host = named(&self.sandbox_url) || named(&self.sandbox_host);
        if self.route == Route::Host && self.sandbox_url.is_some() && !host {
            return wrong("`route = \"host\"` needs `{id}` in `sandbox_url` or `sandbox_host`");
        }
        if self.shell.is_empty() {
            return wrong(
                "`shell` is empty; it needs a POSIX shell, such as [\"/bin/sh\", \"-c\"]",
            );
        }
        if self.creates_in_flight == 0 {
            return wrong("`creates_in_flight` is 0, so that no sandbox could ever be made");
        }
        let second = Duration::from_secs(1);
        let times = [
            ("ttl", self.ttl),
            ("keepalive", self.keepalive),
            ("request", self.request),
            ("create", self.create),
            ("start", self.start),
            ("reattach", self.reattach),
        ];
        match times.iter().find(|(_, time)| *time < second) {
            Some((name, _)) => wrong(&format!("`{name}` is less than a second")),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for E2bConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("E2bConfig")
            .field("domain", &self.domain)
            .field("api_url", &self.api_url)
            .field("sandbox_url", &self.sandbox_url)
            .field("route", &self.route)
            .field("template", &self.template)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
