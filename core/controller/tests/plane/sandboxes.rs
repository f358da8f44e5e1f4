//! Sandboxes without processes, and an agent that makes real model calls from them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rollgate_backends::{Backend, BackendError, Exec, Exit, Reach, Sandbox, Spec};
use rollgate_harness::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch};
use serde_json::json;

use crate::wire::call;

/// Counts what lives.
#[derive(Default)]
pub struct Fakes {
    pub made: AtomicUsize,
    pub living: Arc<AtomicUsize>,
    /// `create` fails this often at first.
    pub fail_first: usize,
}

struct Fake {
    living: Arc<AtomicUsize>,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

#[async_trait]
impl Backend for Fakes {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn isolation(&self) -> String {
        "none".to_owned()
    }
    async fn reach(&self) -> Result<Reach, BackendError> {
        Ok(Reach::Loopback)
    }
    async fn create(&self, _spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        if self.made.fetch_add(1, Ordering::SeqCst) < self.fail_first {
            return Err(BackendError::Unusable("no room".to_owned()));
        }
        self.living.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Fake { living: self.living.clone(), files: Mutex::default() }))
    }
    async fn sweep(&self) -> Result<usize, BackendError> {
        Ok(0)
    }
}

fn exit(code: i32) -> Exit {
    Exit {
        code: Some(code),
        timed_out: false,
        stdout: Vec::new(),
        stderr: Vec::new(),
        cut_bytes: 0,
        took: Duration::ZERO,
    }
}

/// Makes this many calls; exits with 1 at the first refusal.
async fn agent(exec: &Exec, calls: usize) -> Exit {
    let env = |name: &str| &exec.env.iter().find(|(found, _)| found == name).unwrap().1;
    let url = env("BASE").strip_prefix("http://").unwrap();
    let addr: SocketAddr = url.strip_suffix("/v1").unwrap().parse().unwrap();
    for call_number in 0..calls {
        let message = json!({"role": "user", "content": format!("call {call_number}")});
        let body = json!({"model": "m", "messages": [message]}).to_string();
        let answer = call(addr, "POST /v1/chat/completions", Some(env("KEY")), &body).await;
        if answer.status != 200 {
            return exit(1);
        }
    }
    exit(0)
}

#[async_trait]
impl Sandbox for Fake {
    fn id(&self) -> &str {
        "fake"
    }
    fn workdir(&self) -> &str {
        "/w"
    }
    fn home(&self) -> &str {
        "/h"
    }
    fn rollgate(&self) -> &str {
        "/r"
    }
    async fn exec(&self, exec: Exec) -> Result<Exit, BackendError> {
        let text: Vec<&str> = exec.argv.iter().map(String::as_str).collect();
        Ok(match text[..] {
            ["call", count] => agent(&exec, count.parse().unwrap()).await,
            ["call-and-fail"] => {
                agent(&exec, 1).await;
                exit(1)
            }
            ["hang"] => {
                agent(&exec, 1).await;
                std::future::pending().await
            }
            // What the runtime asks of a sandbox itself: is it well, does it reach the gateway.
            ["true"] => exit(0),
            ["sh", "-c", _, "reach", url] => {
                let addr = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
                match addr.parse() {
                    Ok(addr) if tokio::net::TcpStream::connect(addr).await.is_err() => exit(7),
                    Ok(addr) => {
                        exit(i32::from(call(addr, "GET /healthz", None, "").await.status != 200))
                    }
                    Err(_) => exit(6),
                }
            }
            ["exit", code] => exit(code.parse().unwrap()),
            _ => return Err(BackendError::Unusable(format!("cannot run {text:?}"))),
        })
    }
    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), BackendError> {
        self.files.lock().unwrap().insert(path.to_owned(), contents.to_vec());
        Ok(())
    }
    async fn get(&self, path: &str, _cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }
    async fn destroy(&self) -> Result<(), BackendError> {
        self.living.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Runs the task's instruction, split at spaces.
struct Words;

impl Harness for Words {
    fn name(&self) -> &'static str {
        "words"
    }
    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        Ok(Launch {
            files: Vec::new(),
            env: vec![
                ("BASE".into(), job.openai_base_url.clone()),
                ("KEY".into(), job.key.clone()),
            ],
            argv: job.instruction.split(' ').map(str::to_owned).collect(),
            stdin: None,
            timeout: job.timeout,
            result_file: None,
        })
    }
    fn judge(&self, ended: &Ended) -> AgentOutcome {
        match ended.exit_code {
            Some(0) => AgentOutcome::Done,
            code => AgentOutcome::Failed(format!("exit code {code:?}")),
        }
    }
    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        // Called between the steps of an attempt, where no step catches it.
        assert_ne!(job.instruction, "panic", "on purpose");
        None
    }
}

/// The harness of this name.
pub fn words(name: &str) -> Result<Box<dyn Harness>, HarnessError> {
    match name {
        "words" => Ok(Box::new(Words)),
        other => Err(HarnessError::Wrong(format!("there is no agent called `{other}`"))),
    }
}
