//! Other gateways, beside which Rollgate is measured: a command line each, in the same place.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::machine;
use crate::exit::Stop;

/// How long a peer may take until it answers `GET /v1/models`.
const START: Duration = Duration::from_secs(90);
/// How long it may take to end when it is told to.
const END: Duration = Duration::from_secs(5);

/// Name and text of a file of settings.
type Settings = Option<(&'static str, &'static str)>;

/// A gateway to be measured beside ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in reports.
    pub name: String,
    /// Shell command; `{port}`, `{engine}` and `{config}` are filled in.
    pub command: String,
    /// A file to write into `{config}` before.
    file: Settings,
}

/// It takes two descriptors a connection and does not start beyond the process's limit of them.
const HAPROXY: &str = "global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 10s
  timeout client 1h
  timeout server 1h
  timeout http-keep-alive 1h
  option http-keep-alive
  http-reuse always
frontend agents
  bind 127.0.0.1:{port}
  default_backend engine
backend engine
  server engine {engine}
";

const NGINX: &str = "daemon off;
worker_processes 1;
pid {config}/nginx.pid;
error_log {config}/error.log;
events { worker_connections 16384; }
http {
  access_log off;
  client_body_temp_path {config}/body;
  proxy_temp_path {config}/proxy;
  fastcgi_temp_path {config}/fastcgi;
  uwsgi_temp_path {config}/uwsgi;
  scgi_temp_path {config}/scgi;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  keepalive_timeout 1h;
  keepalive_requests 100000000;
  upstream engine { server {engine}; keepalive 2048; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:{port};
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
";

/// Those that are known by name: name, command, file.
const KNOWN: [(&str, &str, Settings); 6] = [
    ("haproxy", "haproxy -db -f {config}/haproxy.cfg", Some(("haproxy.cfg", HAPROXY))),
    (
        "nginx",
        "nginx -e {config}/error.log -p {config} -c {config}/nginx.conf",
        Some(("nginx.conf", NGINX)),
    ),
    (
        "sglang-router",
        "sglang-router --host 127.0.0.1 --port {port} --worker-urls http://{engine} --policy cache_aware --log-level error --prometheus-port {port2}",
        None,
    ),
    (
        "sglang-router-rr",
        "sglang-router --host 127.0.0.1 --port {port} --worker-urls http://{engine} --policy round_robin --log-level error --prometheus-port {port2}",
        None,
    ),
    (
        "vllm-router",
        "vllm-router --host 127.0.0.1 --port {port} --worker-urls http://{engine} --policy cache_aware --log-level error --prometheus-port {port2}",
        None,
    ),
    (
        "vllm-router-rr",
        "vllm-router --host 127.0.0.1 --port {port} --worker-urls http://{engine} --policy round_robin --log-level error --prometheus-port {port2}",
        None,
    ),
];

impl Peer {
    /// Reads `NAME` of a known one, or `NAME=COMMAND`.
    pub fn parse(text: &str) -> Result<Peer, String> {
        if let Some((name, command)) = text.split_once('=') {
            if !command.contains("{port}")
                || !command.contains("{engine}") && !command.contains("{config}")
            {
                return Err(format!(
                    "{command:?} has no {{port}}, where it is to listen, or no {{engine}}, whom it is to ask"
                ));
            }
            return Ok(Peer { name: name.to_owned(), command: command.to_owned(), file: None });
        }
        let known = KNOWN.iter().find(|(name, ..)| *name == text);
        let Some((name, command, file)) = known else {
            let all: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
            return Err(format!("known are {}; others are NAME=COMMAND", all.join(", ")));
        };
        Ok(Peer { name: (*name).to_owned(), command: (*command).to_owned(), file: *file })
    }

    /// Whether its program is there, else what to do.
    pub fn check(&self) -> Result<(), Stop> {
        let program = self.command.split_whitespace().next().unwrap_or_default();
        let path = search_path();
        let there = program.contains('/')
            || std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
        if there || KNOWN.iter().all(|(name, ..)| *name != self.name) {
            return Ok(());
        }
        Err(Stop::environment(format!(
            "--peer {}: there is no {program} on the PATH or in ROLLGATE_BENCH_PATH; \
             bench/peers/prepare.sh {program} installs it",
            self.name
        )))
    }

    /// Starts it on these cores and waits until it answers.
    pub fn start(
        &self,
        directory: &Path,
        engine: SocketAddr,
        cores: &[usize],
        own_core: usize,
    ) -> anyhow::Result<Running> {
        let [port, port2] = [free_port()?, free_port()?];
        let fill = |text: &str| {
            text.replace("{port}", &port.to_string())
                .replace("{port2}", &port2.to_string())
                .replace("{engine}", &engine.to_string())
                .replace("{config}", &directory.display().to_string())
        };
        if let Some((name, text)) = self.file {
            std::fs::write(directory.join(name), fill(text))?;
        }
        let log = directory.join("peer.log");
        machine::pin(cores)?;
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {}", fill(&self.command)))
            .env("PATH", search_path())
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?)
            .process_group(0)
            .spawn();
        machine::pin(&[own_core])?;
        let mut running =
            Running { child: child?, address: SocketAddr::from(([127, 0, 0, 1], port)), log };
        running.wait(&self.name)?;
        Ok(running)
    }
}

/// `ROLLGATE_BENCH_PATH` before the `PATH`.
fn search_path() -> std::ffi::OsString {
    let first = std::env::var_os("ROLLGATE_BENCH_PATH").unwrap_or_default();
    let then = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&first).chain(std::env::split_paths(&then));
    std::env::join_paths(all.filter(|path| !path.as_os_str().is_empty())).unwrap_or(then.clone())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A peer at work; dropping it ends it and what it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    log: PathBuf,
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it knows its engine: models are listed through it.
    fn wait(&mut self, name: &str) -> Result<(), Stop> {
        let until = Instant::now() + START;
        let client = crate::probe::client(Duration::from_secs(2));
        let url = format!("http://{}/v1/models", self.address);
        loop {
            let listens = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok();
            if listens && knows_its_engine(&client, &url) {
                return Ok(());
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > until {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(12)..].join("\n");
                return Err(Stop::environment(format!("--peer {name} did not start:\n{end}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Routers list no model until they have found their engine.
fn knows_its_engine(client: &ureq::Agent, url: &str) -> bool {
    let Ok(mut reply) = client.get(url).call() else { return false };
    let text = reply.body_mut().read_to_string().unwrap_or_default();
    reply.status() == 200 && !text.replace(' ', "").contains("\"data\":[]")
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id() as i32);
        // Each fails where there is nothing left to end.
        let _ = killpg(group, Signal::SIGTERM);
        let until = Instant::now() + END;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_known_or_commands() {
        assert_eq!(Peer::parse("haproxy").unwrap().name, "haproxy");
        let own = Peer::parse("mine=mine --port {port} --to {engine}").unwrap();
        assert_eq!(
            (own.name.as_str(), own.command.as_str()),
            ("mine", "mine --port {port} --to {engine}")
        );
        assert!(Peer::parse("mine=mine --to {engine}").unwrap_err().contains("{port}"));
        assert!(Peer::parse("squid").unwrap_err().contains("haproxy, nginx"));
    }

    #[test]
    fn a_peer_that_ends_at_once_says_why() {
        let peer = Peer::parse("sad=sh -c 'echo no luck {port} {engine}; exit 1'").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let cores = machine::Cores::share(1).unwrap();
        let engine = "127.0.0.1:1".parse().unwrap();
        let error = peer.start(directory.path(), engine, &cores.all, cores.load).unwrap_err();
        assert!(error.to_string().contains("no luck"), "{error}");
    }
}
