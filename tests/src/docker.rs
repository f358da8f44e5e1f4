//! A Docker engine of a test's own, with Debian as `debian:stable-slim`.
//!
//! No image registry is asked: the image is the file system that `tests/real/prepare.sh` made.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListContainersOptionsBuilder};
use bollard::{ClientVersion, Docker as Client};
use futures_util::TryStreamExt as _;

use crate::{program, real};

/// A network of the engine on which containers reach this machine.
pub const NETWORK: &str = "rollgate-test";

/// The image, as the examples name it.
const IMAGE: (&str, &str) = ("debian", "stable-slim");
/// Longest start of the engine.
const START: Duration = Duration::from_secs(60);
/// Longest answer, such as to an image that is imported.
const ANSWER_S: u64 = 300;

/// A running engine. Dropping it ends it and removes all that it made.
#[derive(Debug)]
pub struct Engine {
    dir: PathBuf,
    /// Its stdin ends with this process, and the engine with it.
    supervisor: Child,
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // The supervisor says itself what it cannot remove.
        let _ = self.supervisor.wait();
    }
}

impl Engine {
    /// Starts an engine that has the image and the network. `None`: leave the test out.
    pub fn start() -> Option<Self> {
        let image = real::debian()?;
        let mut logs = Vec::new();
        for driver in ["overlay2", "vfs"] {
            match Self::with(driver) {
                Ok(engine) => {
                    engine.prepare(&image);
                    return Some(engine);
                }
                Err(log) => logs.push(log),
            }
        }
        panic!("dockerd does not start; its logs: {}", logs.join("\n---\n"));
    }

    /// An empty engine with this storage driver; else its log.
    fn with(driver: &str) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("rge-").tempdir().expect("a directory").keep();
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let supervisor = Command::new("sh")
            .arg(program::workspace().join("backends/tests/docker/supervise.sh"))
            .arg(&dir)
            .arg(driver)
            .arg(bridge(&dir))
            .stdin(Stdio::piped())
            .process_group(0)
            .env("PATH", path)
            .spawn()
            .expect("a shell starts");
        let engine = Self { dir, supervisor };
        let began = Instant::now();
        let log = || std::fs::read_to_string(engine.dir.join("log")).unwrap_or_default();
        while began.elapsed() < START && !log().contains("failed to start daemon") {
            std::thread::sleep(Duration::from_millis(100));
            if log().contains("API listen on") && UnixStream::connect(engine.socket()).is_ok() {
                return Ok(engine);
            }
        }
        Err(log())
    }

    fn prepare(&self, image: &Path) {
        let archive = std::fs::read(image).expect("the image's file system can be read");
        let options = CreateImageOptionsBuilder::default()
            .from_src("-")
            .repo(IMAGE.0)
            .tag(IMAGE.1)
            .changes(vec!["ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin".to_owned()])
            .build();
        let name = ("com.docker.network.bridge.name".to_owned(), bridge(&self.dir));
        let network = NetworkCreateRequest {
            name: NETWORK.to_owned(),
            options: Some(HashMap::from([name])),
            ..NetworkCreateRequest::default()
        };
        self.ask(async |client| {
            let archive = bollard::body_full(archive.into());
            let made = client.create_image(Some(options), Some(archive), None);
            made.try_collect::<Vec<_>>().await?;
            client.create_network(network).await
        });
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    /// Names of all containers that it has, ended ones and those of image builds too. It is the
    /// test's own: whatever is left, Rollgate left.
    pub fn containers(&self) -> Vec<String> {
        let options = ListContainersOptionsBuilder::default().all(true).build();
        let found = self.ask(async |client| client.list_containers(Some(options)).await);
        found.into_iter().map(|found| found.names.unwrap_or_default().join(",")).collect()
    }

    /// Asks the engine; panics when it refuses.
    fn ask<T>(&self, ask: impl AsyncFnOnce(Client) -> Result<T, bollard::errors::Error>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // What also the oldest engine speaks that Debian ships.
        let version = ClientVersion { major_version: 1, minor_version: 41 };
        let socket = self.socket();
        runtime.expect("a runtime").block_on(async {
            let socket = socket.to_str().expect("a path of text");
            let client = Client::connect_with_unix(socket, ANSWER_S, &version);
            ask(client.expect("a client")).await.expect("the engine does as it is asked")
        })
    }
}

/// Name of the engine's network interface on this machine; at most 15 bytes.
fn bridge(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
