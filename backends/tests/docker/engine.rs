//! One Docker engine for all tests of this program, with an image made of Debian's busybox.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListContainersOptionsBuilder};
use bollard::{API_DEFAULT_VERSION, Docker as Client};
use futures_util::TryStreamExt;
use rollgate_backends::{Backend, Docker, DockerConfig, Exec, Exit, Sandbox, Spec};

pub const IMAGE: &str = "rollgate-test-busybox:1";
pub const NETWORK: &str = "rollgate-test";
pub const BUSYBOX: &str = "/bin/busybox";

/// The tests' engine.
pub struct Engine {
    pub dir: PathBuf,
    /// The supervisor; its stdin ends with this process, and the engine with it.
    supervisor: Child,
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        self.supervisor.wait().unwrap();
    }
}

static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();

/// The engine; `None`, with a printed reason, where real engines are left out.
pub fn engine() -> Option<&'static Engine> {
    let engine = ENGINE.get_or_init(|| {
        let missing = missing();
        if missing.is_empty() {
            return Some(start("rgd-"));
        }
        let missing = missing.join(", ");
        assert!(
            std::env::var("ROLLGATE_SKIP_REAL").is_ok_and(|value| value == "1"),
            "no {missing} on this machine: install the Debian packages docker.io, iptables and \
             busybox-static, or leave these tests out with ROLLGATE_SKIP_REAL=1"
        );
        println!("left out: no {missing} on this machine, and ROLLGATE_SKIP_REAL=1");
        None
    });
    engine.as_ref()
}

fn missing() -> Vec<&'static str> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    ["dockerd", "iptables", "busybox"].into_iter().filter(|name| !there(name)).collect()
}

/// Starts an engine and prepares it.
pub fn start(prefix: &str) -> Engine {
    let mut logs = Vec::new();
    for driver in ["overlay2", "vfs"] {
        let dir = tempfile::Builder::new().prefix(prefix).tempdir().unwrap().keep();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docker/supervise.sh");
        let mut supervisor = Command::new("sh")
            .arg(script)
            .arg(&dir)
            .arg(driver)
            .arg(bridge(&dir))
            .stdin(Stdio::piped())
            .process_group(0)
            .env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin")
            .spawn()
            .unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
            let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            if log.contains("API listen on") && UnixStream::connect(dir.join("sock")).is_ok() {
                let engine = Engine { dir, supervisor };
                engine.prepare();
                return engine;
            }
            if log.contains("failed to start daemon") {
                break;
            }
        }
        logs.push(std::fs::read_to_string(dir.join("log")).unwrap_or_default());
        drop(supervisor.stdin.take());
        supervisor.wait().unwrap();
    }
    panic!("dockerd does not start; its logs: {}", logs.join("\n---\n"));
}

impl Engine {
    /// Kills the engine without warning; another takes its place at once.
    pub fn crash(&self) {
        std::fs::write(self.dir.join("again"), "").unwrap();
        let pid = std::fs::read_to_string(self.dir.join("pid")).unwrap();
        let killed = match Command::new("kill").args(["-9", pid.trim()]).status() {
            Ok(status) if status.success() => status,
            _ => Command::new("sudo").args(["-n", "kill", "-9", pid.trim()]).status().unwrap(),
        };
        assert!(killed.success());
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    pub fn client(&self) -> Client {
        let socket = self.socket();
        // A version that also the oldest engine speaks that Debian ships.
        let version = bollard::ClientVersion { major_version: 1, minor_version: 41 };
        assert!(API_DEFAULT_VERSION.minor_version >= version.minor_version);
        Client::connect_with_unix(socket.to_str().unwrap(), 60, &version).unwrap()
    }

    fn prepare(&self) {
        let name = ("com.docker.network.bridge.name".to_owned(), bridge(&self.dir));
        let network = NetworkCreateRequest {
            name: NETWORK.to_owned(),
            options: Some(HashMap::from([name])),
            ..NetworkCreateRequest::default()
        };
        let prepare = async {
            self.import(IMAGE, busybox(), "ENV PATH=/bin").await;
            self.client().create_network(network).await.unwrap();
        };
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(prepare);
        };
        std::thread::scope(|scope| scope.spawn(run).join()).unwrap();
    }

    /// Makes an image of an archive; `change` is a line of a Dockerfile.
    pub async fn import(&self, name: &str, archive: Vec<u8>, change: &str) {
        let (repo, tag) = name.split_once(':').unwrap();
        let options = CreateImageOptionsBuilder::default()
            .from_src("-")
            .repo(repo)
            .tag(tag)
            .changes(vec![change.to_owned()])
            .build();
        let client = self.client();
        let made =
            client.create_image(Some(options), Some(bollard::body_full(archive.into())), None);
        made.try_collect::<Vec<_>>().await.unwrap();
    }

    /// Names of the containers that this owner has on the engine, ended ones too.
    pub async fn containers_of(&self, owner: &str) -> Vec<String> {
        let filters = HashMap::from([("label", vec![format!("rollgate.owner={owner}")])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let found = self.client().list_containers(Some(options)).await.unwrap();
        found.into_iter().map(|container| container.names.unwrap().join(",")).collect()
    }
}

/// Name of the engine's network interface on this machine; at most 15 bytes.
fn bridge(dir: &Path) -> String {
    dir.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A file system that is made for an image.
#[derive(Default)]
pub struct Tree(Option<tar::Builder<Vec<u8>>>);

impl Tree {
    fn add(&mut self, path: &str, kind: tar::EntryType, mode: u32, contents: &[u8], link: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(contents.len() as u64);
        let archive = self.0.get_or_insert_with(|| tar::Builder::new(Vec::new()));
        match link {
            "" => archive.append_data(&mut header, path, contents).unwrap(),
            link => archive.append_link(&mut header, path, link).unwrap(),
        }
    }

    pub fn folder(&mut self, path: &str, mode: u32) {
        self.add(path, tar::EntryType::Directory, mode, b"", "");
    }

    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.add(path, tar::EntryType::Regular, mode, contents, "");
    }

    pub fn link(&mut self, path: &str, to: &str) {
        self.add(path, tar::EntryType::Symlink, 0o777, b"", to);
    }

    pub fn archive(self) -> Vec<u8> {
        self.0.unwrap().into_inner().unwrap()
    }
}

/// The file system of the image, as an archive.
fn busybox() -> Vec<u8> {
    let mut tree = Tree::default();
    for (path, mode) in [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("srv", 0o777)] {
        tree.folder(path, mode);
    }
    tree.file("etc/passwd", 0o644, b"root:x:0:0::/:/bin/sh\nagent:x:1234:1235::/:/bin/sh\n");
    tree.file("etc/group", 0o644, b"root:x:0:\nteam:x:4321:\n");
    tree.file("bin/busybox", 0o755, &std::fs::read(BUSYBOX).unwrap());
    let applets = Command::new(BUSYBOX).arg("--list").output().unwrap().stdout;
    for applet in String::from_utf8(applets).unwrap().lines().filter(|name| *name != "busybox") {
        tree.link(&format!("bin/{applet}"), "busybox");
    }
    tree.archive()
}

/// The backend as most tests use it.
pub fn config(socket: &Path) -> DockerConfig {
    DockerConfig {
        host: Some(socket.to_str().unwrap().to_owned()),
        image: Some(IMAGE.to_owned()),
        network: "none".to_owned(),
        ..DockerConfig::new(BUSYBOX.into())
    }
}

/// A sandbox of this owner.
pub async fn sandbox(owner: &str) -> Option<Box<dyn Sandbox>> {
    let docker = Docker::new(config(&engine()?.socket()));
    Some(docker.create(&Spec::new("attempt/1", owner)).await.unwrap())
}

pub fn sh(script: &str) -> Exec {
    Exec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: None,
        stdin: None,
        timeout: Duration::from_secs(60),
        output_cap_bytes: 1 << 16,
    }
}

pub fn out(exit: &Exit) -> String {
    String::from_utf8_lossy(&exit.stdout).trim().to_owned()
}

pub fn err(exit: &Exit) -> String {
    String::from_utf8_lossy(&exit.stderr).trim().to_owned()
}

/// How many processes of the sandbox have exactly this command line (a pattern of `grep`).
pub async fn running(sandbox: &dyn Sandbox, what: &str) -> usize {
    let exit = sandbox.exec(sh(&format!("ps -o args | grep -cx '{what}'"))).await.unwrap();
    out(&exit).parse().unwrap()
}

/// Waits until something holds.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    let began = Instant::now();
    while !check().await {
        assert!(began.elapsed() < Duration::from_secs(90), "not within 90 s: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
