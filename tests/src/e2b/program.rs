//! A process of a sandbox: its input, its output to whoever listens, and its end.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::connect::{self, Refusal};
use super::paths;
use super::world::{MARKER, Place, World, lock};

/// Most bytes of one data event.
const CHUNK_BYTES: usize = 32 << 10;
/// Events that a listener may be behind before the process is held up.
const LISTENER_EVENTS: usize = 64;
/// Numbers of processes that wait in the server begin here, past any number of a real one.
const WAITING_PID: u64 = 5_000_000;

/// A process, from its start until its end is forgotten.
#[derive(Debug)]
pub(super) struct Program {
    pub pid: u64,
    pub tag: Option<String>,
    pub config: Value,
    /// The real process, once there is one.
    real: AtomicI32,
    killed: AtomicBool,
    input: mpsc::UnboundedSender<Option<Vec<u8>>>,
    listeners: Mutex<Vec<mpsc::Sender<Bytes>>>,
    end: Mutex<Option<(Bytes, Instant)>>,
}

/// What a process is started with.
#[derive(Debug)]
struct Line {
    command: Command,
    /// Seconds that are waited in the server before it is run.
    wait: Option<Duration>,
}

impl Program {
    /// Starts what a `StartRequest` asks for; with it its events.
    pub fn start(
        world: &Arc<World>,
        place: &Arc<Place>,
        request: &Value,
    ) -> Result<(Arc<Self>, mpsc::Receiver<Bytes>), Refusal> {
        let process = &request["process"];
        let mut line = line(world, place, process)?;
        let with_stdin = request["stdin"].as_bool().unwrap_or(true);
        let (input, inputs) = mpsc::unbounded_channel();
        line.command.stdin(if with_stdin { Stdio::piped() } else { Stdio::null() });
        let mut child = None;
        let pid = match line.wait {
            Some(_) => WAITING_PID + world.number(),
            None => {
                let spawned = line.command.spawn();
                let spawned = child.insert(spawned.map_err(|error| {
                    Refusal::new("invalid_argument", format!("the process does not start: {error}"))
                })?);
                u64::from(spawned.id().unwrap_or_default())
            }
        };
        let program = Arc::new(Self {
            pid,
            tag: request["tag"].as_str().map(str::to_owned),
            config: process.clone(),
            real: AtomicI32::new(if child.is_some() { pid as i32 } else { 0 }),
            killed: AtomicBool::new(false),
            input,
            listeners: Mutex::default(),
            end: Mutex::default(),
        });
        let keep = world.options.keep_ended;
        let mut programs = lock(&place.programs);
        programs.retain(|program| program.remembered(keep));
        programs.push(program.clone());
        drop(programs);
        // Whoever started it hears it from the beginning.
        let events = program.listen();
        world.begun();
        let (world, running) = (world.clone(), program.clone().run(line, child, inputs));
        tokio::spawn(async move {
            running.await;
            world.ended();
        });
        if place.gone() {
            program.kill();
        }
        Ok((program, events))
    }

    async fn run(
        self: Arc<Self>,
        mut line: Line,
        child: Option<Child>,
        inputs: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    ) {
        if let Some(wait) = line.wait {
            tokio::time::sleep(wait).await;
        }
        let child = match child {
            _ if self.killed.load(Ordering::Acquire) => Err("signal: killed".to_owned()),
            Some(child) => Ok(child),
            None => {
                let spawned = tokio::task::spawn_blocking(move || line.command.spawn()).await;
                spawned.expect("a start does not panic").map_err(|error| error.to_string())
            }
        };
        let ended = match child {
            Ok(child) => self.follow(child, inputs).await,
            Err(error) => json!({"status": error, "error": error, "exitCode": -1}),
        };
        let event = connect::message(&json!({"event": {"end": ended}}));
        let listeners = {
            let mut end = lock(&self.end);
            *end = Some((event.clone(), Instant::now()));
            std::mem::take(&mut *lock(&self.listeners))
        };
        for listener in listeners {
            // A listener that went away needs no end.
            let _ = listener.send(event.clone()).await;
        }
    }

    /// Pumps input and outputs until the outputs are closed and the process ended.
    async fn follow(
        &self,
        mut child: Child,
        inputs: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    ) -> Value {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        self.real.store(pid, Ordering::Release);
        if self.killed.load(Ordering::Acquire) {
            self.kill();
        }
        let feeding = feed(child.stdin.take(), inputs);
        let outputs = async {
            let (out, err) = (child.stdout.take(), child.stderr.take());
            tokio::join!(self.pump("stdout", out), self.pump("stderr", err));
        };
        tokio::select! {
            () = outputs => {}
            () = feeding => {}
        }
        let status = child.wait().await;
        self.real.store(0, Ordering::Release);
        status.map_or_else(|error| json!({"error": error.to_string()}), ended)
    }

    async fn pump(&self, name: &str, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            let data = STANDARD.encode(&buffer[..count]);
            let event = connect::message(&json!({"event": {"data": {name: data}}}));
            let listeners = lock(&self.listeners).clone();
            for listener in listeners {
                let _ = listener.send(event.clone()).await;
            }
            lock(&self.listeners).retain(|listener| !listener.is_closed());
        }
    }

    /// Events from now on, the start first.
    pub fn listen(&self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(LISTENER_EVENTS);
        let start = connect::message(&json!({"event": {"start": {"pid": self.pid}}}));
        sender.try_send(start).expect("a new channel has room");
        match &*lock(&self.end) {
            Some((end, _)) => sender.try_send(end.clone()).expect("a new channel has room"),
            None => lock(&self.listeners).push(sender),
        }
        receiver
    }

    /// Sends input; `None` closes it. Whether it can still be taken.
    pub fn input(&self, bytes: Option<Vec<u8>>) -> bool {
        self.input.send(bytes).is_ok()
    }

    /// Sends a signal to the process alone, as envd does; what it started lives on.
    pub fn signal(&self, signal: Signal) {
        match self.real.load(Ordering::Acquire) {
            0 => self.killed.store(true, Ordering::Release),
            // It may just have ended.
            pid => drop(nix::sys::signal::kill(Pid::from_raw(pid), signal)),
        }
    }

    /// Kills its process group.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        let pid = self.real.load(Ordering::Acquire);
        if pid > 0 {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    pub fn running(&self) -> bool {
        lock(&self.end).is_none()
    }

    /// Whether it runs, or ended not longer ago than this.
    pub fn remembered(&self, keep: Duration) -> bool {
        lock(&self.end).as_ref().is_none_or(|(_, at)| at.elapsed() < keep)
    }
}

async fn feed(stdin: Option<ChildStdin>, mut inputs: mpsc::UnboundedReceiver<Option<Vec<u8>>>) {
    if let Some(mut stdin) = stdin {
        while let Some(Some(bytes)) = inputs.recv().await {
            // Nobody has to read.
            let _ = stdin.write_all(&bytes).await;
        }
    }
    std::future::pending().await
}

fn ended(status: ExitStatus) -> Value {
    match (status.code(), status.signal()) {
        (Some(0), _) => json!({"exited": true, "status": "exit status 0"}),
        (Some(code), _) => {
            let status = format!("exit status {code}");
            json!({"exited": true, "status": status, "error": status, "exitCode": code})
        }
        (None, signal) => {
            let name = signal.and_then(|signal| Signal::try_from(signal).ok());
            let status = match name {
                Some(Signal::SIGKILL) => "signal: killed".to_owned(),
                Some(Signal::SIGTERM) => "signal: terminated".to_owned(),
                _ => format!("signal: {}", signal.unwrap_or_default()),
            };
            json!({"status": status, "error": status, "exitCode": -1})
        }
    }
}

fn line(world: &World, place: &Place, process: &Value) -> Result<Line, Refusal> {
    let bad = |message: String| Refusal::new("invalid_argument", message);
    let program = process["cmd"].as_str().ok_or_else(|| bad("no cmd".to_owned()))?;
    let args = process["args"].as_array().into_iter().flatten();
    let mut args: Vec<String> =
        args.map(|arg| arg.as_str().unwrap_or_default().to_owned()).collect();
    let wait = if world.options.builtin_sleep { taken_sleep(&mut args) } else { None };
    let cwd = match process["cwd"].as_str() {
        Some(cwd) => paths::resolve(world, place, cwd).map_err(bad)?,
        None => place.home(),
    };
    if !cwd.is_dir() {
        return Err(bad(format!("cwd '{}' does not exist", cwd.display())));
    }
    let mut command = Command::new(program);
    command.args(args).current_dir(cwd).process_group(0).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("HOME", place.home()).env("TMPDIR", place.dir.join("tmp"));
    command.env("USER", "user").env("LOGNAME", "user").env("LANG", "C.UTF-8");
    command.env("E2B_SANDBOX", "true").env("E2B_SANDBOX_ID", &place.id).envs(&place.env);
    for (name, value) in process["envs"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().unwrap_or_default());
    }
    command.env(MARKER, world.marker_of(&place.id));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(Line { command, wait })
}

/// Takes the time out of a command that ends with `sleep N`.
fn taken_sleep(args: &mut [String]) -> Option<Duration> {
    let last = args.len().checked_sub(1)?;
    let words: Vec<String> = args[last].split(' ').map(str::to_owned).collect();
    let seconds = match words.as_slice() {
        [sleep, seconds] if sleep == "sleep" => seconds.parse().ok()?,
        [seconds] if last > 0 && args[last - 1] == "sleep" => seconds.parse().ok()?,
        _ => return None,
    };
    args[last] = if words.len() == 2 { "sleep 0".to_owned() } else { "0".to_owned() };
    Some(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_taken_only_from_the_end() {
        let check = |args: &[&str], seconds: Option<u64>, left: &[&str]| {
            let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(taken_sleep(&mut args), seconds.map(Duration::from_secs));
            assert_eq!(args, left);
        };
        check(&["-l", "-c", "sleep 8"], Some(8), &["-l", "-c", "sleep 0"]);
        check(&["-c", "x", "sleep", "8"], Some(8), &["-c", "x", "sleep", "0"]);
        check(&["-c", "sleep 8; true"], None, &["-c", "sleep 8; true"]);
        check(&["-c", "echo 8"], None, &["-c", "echo 8"]);
    }
}
