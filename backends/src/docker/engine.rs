//! The engine: one connection setting, a deadline on every call, and what its failures mean.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::sync::{OnceCell, Semaphore};

use super::image::Flight;
use super::{DockerConfig, limits};
use crate::BackendError;

const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// One engine and what all its sandboxes share.
pub(super) struct Engine {
    pub config: DockerConfig,
    host: String,
    client: OnceCell<Docker>,
    pub creates: Arc<Semaphore>,
    pub removes: Semaphore,
    pub starts: Semaphore,
    /// Containers that may exist although nobody holds them, and since when.
    doubts: Mutex<VecDeque<(String, Instant)>>,
    pub flights: Mutex<HashMap<String, Flight>>,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The engine said no.
    Refused { status: u16, message: String },
    /// It was never asked.
    Unreachable(String),
    /// It was asked, and nobody knows what it did.
    Lost(String),
}

impl Fault {
    fn of(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError { status_code, message } => {
                Self::Refused { status: status_code, message }
            }
            Error::SocketNotFoundError(path) => Self::Unreachable(format!("{path} is not there")),
            Error::HyperLegacyError { err } if err.is_connect() => Self::Unreachable(chain(&err)),
            Error::UnsupportedURISchemeError { uri } => Self::Unreachable(format!(
                "{uri} is not an address this program can use: unix://PATH or tcp://HOST:PORT"
            )),
            Error::DockerStreamError { error } => Self::Refused { status: 500, message: error },
            other => Self::Lost(chain(&other)),
        }
    }

    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable(_) | Self::Lost(_) => None,
        }
    }

    /// Whether the engine may have done what it was asked.
    pub fn ambiguous(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 409,
            Self::Unreachable(_) => false,
        }
    }
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl Engine {
    pub fn new(config: DockerConfig) -> Self {
        let env = || std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let host = config.host.clone().or_else(env).unwrap_or_else(|| DEFAULT_HOST.to_owned());
        let host = if host.starts_with('/') { format!("unix://{host}") } else { host };
        let in_flight = config.in_flight.max(1);
        Self {
            config,
            host,
            client: OnceCell::new(),
            creates: Arc::new(Semaphore::new(in_flight)),
            removes: Semaphore::new(in_flight),
            starts: Semaphore::new(limits::STARTS_IN_FLIGHT),
            doubts: Mutex::default(),
            flights: Mutex::default(),
        }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// The client; the first call finds out which version the engine speaks.
    async fn client(&self) -> Result<&Docker, Fault> {
        self.client
            .get_or_try_init(|| async {
                plain(&self.host, std::env::var_os("DOCKER_TLS_VERIFY").is_some())?;
                let docker = match self.host.strip_prefix("unix://") {
                    Some(path) => Docker::connect_with_unix(
                        path,
                        limits::CLIENT.as_secs(),
                        API_DEFAULT_VERSION,
                    ),
                    None => Docker::connect_with_host(&self.host)
                        .map(|docker| docker.with_timeout(limits::CLIENT)),
                };
                let docker = docker.map_err(Fault::of)?;
                within(limits::CONNECT, docker.negotiate_version()).await
            })
            .await
    }

    /// Asks the engine, waiting at most `deadline`.
    pub async fn call<'a, T, F>(
        &'a self,
        deadline: Duration,
        ask: impl FnOnce(&'a Docker) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let client = self.client().await?;
        within(deadline, ask(client)).await
    }

    /// What a failure means for a person, and what to do.
    pub fn error(&self, what: &str, fault: Fault) -> BackendError {
        let host = &self.host;
        BackendError::Unusable(match fault {
            Fault::Unreachable(why) => {
                let hint = if why.to_lowercase().contains("permission denied") {
                    "this user may not use it: join the group of its socket (often `docker`)"
                } else {
                    "start one (often `systemctl start docker`), or say where it is with `host` \
                     of the docker backend or with DOCKER_HOST"
                };
                format!("cannot {what}: no Docker engine answers at {host} ({why}); {hint}")
            }
            Fault::Lost(why) => format!(
                "cannot {what}: the Docker engine at {host} did not answer ({why}); its log \
                 (often `journalctl -u docker`) may tell why"
            ),
            Fault::Refused { status, message } => {
                let hint = hint(&message);
                format!("cannot {what}: the Docker engine says: {message} (status {status}){hint}")
            }
        })
    }

    /// Remembers a container for the next sweep.
    pub fn doubt(&self, name: &str) {
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        if doubts.len() >= limits::DOUBTS {
            doubts.pop_front();
        }
        doubts.push_back((name.to_owned(), Instant::now()));
    }

    /// Containers that may exist although nobody holds them.
    pub fn take_doubts(&self) -> Vec<(String, Instant)> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Goes on doubting what was taken and is not settled.
    pub fn doubt_again(&self, doubt: (String, Instant)) {
        if doubt.1.elapsed() < limits::DOUBT {
            self.doubts.lock().unwrap_or_else(PoisonError::into_inner).push_back(doubt);
        }
    }
}

/// Refuses an engine that is set up for TLS, rather than talk to it in the open.
fn plain(host: &str, tls: bool) -> Result<(), Fault> {
    if tls && !host.starts_with("unix://") || host.starts_with("https://") {
        return Err(Fault::Unreachable(
            "TLS to engines (DOCKER_TLS_VERIFY, https) is not supported: forward its socket, for \
             example with `ssh -L /tmp/docker.sock:/var/run/docker.sock HOST`"
                .to_owned(),
        ));
    }
    Ok(())
}

async fn within<T>(
    deadline: Duration,
    asking: impl Future<Output = Result<T, Error>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(deadline, asking).await {
        Ok(answer) => answer.map_err(Fault::of),
        Err(_) => Err(Fault::Lost(format!("waited {} s", deadline.as_secs_f64()))),
    }
}

/// What to do about refusals that people meet.
fn hint(message: &str) -> &'static str {
    let has = |word: &str| message.contains(word);
    if has("docker-init") && has("not found") || has("docker-init") && has("no such file") {
        "; the engine's machine lacks `docker-init` (Debian: package `tini`)"
    } else if has("storage-opt") || has("storage-driver does not support") {
        "; this engine's storage cannot limit disk: leave `disk_mib` out, or use overlay2 on xfs \
         with pquota"
    } else if has("bind source path does not exist") {
        "; mounts are folders of the engine's machine, so the engine must run where they are"
    } else if has("\"sleep\"") && has("not found") {
        "; an image needs `sleep` and `/bin/sh`"
    } else if has("network") && has("not found") {
        "; make it (`docker network create --internal NAME`), or choose another `network`"
    } else if has("No space left") || has("no space left") {
        "; the engine's disk is full: remove images and containers (`docker system prune`)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(host: &str) -> Engine {
        let config = DockerConfig::new("/bin/true".into());
        Engine::new(DockerConfig { host: Some(host.to_owned()), ..config })
    }

    async fn why(host: &str) -> String {
        let engine = engine(host);
        let fault = engine.call(limits::ASK, Docker::ping).await.unwrap_err();
        assert!(!fault.ambiguous(), "{fault:?}");
        engine.error("ask it", fault).to_string()
    }

    #[tokio::test]
    async fn without_an_engine_the_error_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let host = path.to_str().unwrap();
        let error = why(host).await;
        assert!(error.contains(&format!("unix://{host}")), "{error}");
        assert!(error.contains("is not there") && error.contains("DOCKER_HOST"), "{error}");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let error = why(host).await;
        assert!(error.contains("refused") && error.contains("systemctl"), "{error}");
        assert!(why("https://there:1").await.contains("ssh -L"));
        assert!(plain("tcp://there:1", true).is_err() && plain("tcp://there:1", false).is_ok());
        assert!(plain("unix:///there", true).is_ok());
        let error = why("ssh://there").await;
        assert!(error.contains("unix://PATH or tcp://"), "{error}");
    }

    /// Row 31: what the engine says is told with what to do, where people have met it before.
    #[test]
    fn row_31_refusals_that_people_meet_say_what_to_do() {
        let check = |message: &str, part: &str| {
            let fault = Fault::Refused { status: 500, message: message.to_owned() };
            let text = engine("/s").error("do it", fault).to_string();
            assert!(text.contains(message) && text.contains(part), "{text}");
        };
        check("write /f: no space left on device", "docker system prune");
        check("exec: \"docker-init\": executable file not found in $PATH", "package `tini`");
        check("network x not found", "docker network create");
        check("--storage-opt is supported only for overlay over xfs", "leave `disk_mib` out");
        check("bind source path does not exist: /x", "folders of the engine's machine");
        let other = Fault::Refused { status: 418, message: "a teapot".to_owned() };
        let text = engine("/s").error("do it", other).to_string();
        assert_eq!(text, "cannot do it: the Docker engine says: a teapot (status 418)");
    }

    /// Row 24: every call has a deadline.
    #[tokio::test]
    async fn row_24_an_engine_that_says_nothing_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let engine = engine(path.to_str().unwrap());
        let client = Docker::connect_with_unix(path.to_str().unwrap(), 999, API_DEFAULT_VERSION);
        engine.client.set(client.unwrap()).unwrap();
        let fault = engine.call(Duration::from_millis(50), Docker::ping).await.unwrap_err();
        assert_eq!(fault, Fault::Lost("waited 0.05 s".to_owned()));
        assert!(fault.ambiguous());
    }
}
