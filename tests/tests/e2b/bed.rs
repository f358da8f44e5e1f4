//! A server, a backend on it, and a runtime that is neither's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rollgate_backends::{Backend as _, BackendError, E2b, E2bConfig, Exec, Exit, Sandbox, Spec};
use rollgate_tests::e2b::{E2bServer, Options};

pub struct Bed {
    pub backend: Arc<E2b>,
    pub server: E2bServer,
    runtime: tokio::runtime::Runtime,
}

/// Short times, so that what has to be waited for is over soon.
pub fn config(server: &E2bServer) -> E2bConfig {
    let mut config = E2bConfig::new("key");
    config.api_url = Some(server.url.clone());
    config.sandbox_url = Some(server.url.clone());
    config.keepalive = Duration::from_secs(1);
    config.request = Duration::from_secs(3);
    config.create = Duration::from_secs(2);
    config.start = Duration::from_secs(10);
    config.reattach = Duration::from_secs(6);
    config.kill_grace = Duration::from_secs(5);
    config
}

impl Bed {
    pub fn new() -> Self {
        Self::with(Options::default(), |_| ())
    }

    pub fn with(options: Options, edit: impl FnOnce(&mut E2bConfig)) -> Self {
        let server = E2bServer::start(options);
        let mut config = config(&server);
        edit(&mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let backend = Arc::new(E2b::new(config).unwrap());
        Self { backend, server, runtime }
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(future)
    }

    pub fn try_create(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        self.run(self.backend.create(spec))
    }

    /// A sandbox with the defaults.
    pub fn create(&self) -> Box<dyn Sandbox> {
        self.try_create(&spec()).unwrap()
    }

    pub fn exec(&self, sandbox: &dyn Sandbox, exec: Exec) -> Result<Exit, BackendError> {
        self.run(sandbox.exec(exec))
    }

    pub fn sh(&self, sandbox: &dyn Sandbox, script: &str) -> Exit {
        self.exec(sandbox, shell(script)).unwrap()
    }

    /// Waits until something is so.
    pub fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !so() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{what}: not within 10 s");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn spec() -> Spec {
    Spec::new("attempt-1", "job-1")
}

pub fn command(argv: &[&str]) -> Exec {
    Exec {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        stdin: None,
        timeout: Duration::from_secs(30),
        output_cap_bytes: 64 << 10,
    }
}

pub fn shell(script: &str) -> Exec {
    command(&["sh", "-c", script])
}

#[track_caller]
pub fn fails<T>(result: Result<T, BackendError>, words: &[&str]) -> String {
    let error = result.err().expect("it fails").to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
    error
}
