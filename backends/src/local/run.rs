//! One command from start to a clean table: output drained, deadline kept, nothing left running.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

use super::processes::{self, Target};
use super::{blocking, io};
use crate::output::HeadTail;
use crate::{BackendError, Exec, Exit};

/// How long output may go on after the command itself ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);
/// How much nicer than Rollgate a command is: a thousand agents that start at once must not keep the
/// gateway, which they all wait for, from its work.
const NICER: i32 = 10;
/// Attempts to start a program that a concurrent fork still holds open for writing.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const READ_BYTES: usize = 32 << 10;

/// Runs a command; `env` is its whole environment.
pub(super) async fn run(
    exec: Exec,
    env: Vec<(String, String)>,
    cwd: &str,
    target: Target,
) -> Result<Exit, BackendError> {
    let started = Instant::now();
    let mut child = start(&exec, env, cwd).await?;
    let mut guard = KillOnDrop { target, armed: true };
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    guard.target.group = pid;
    guard.target.since_ticks = pid.and_then(processes::first_ticks).unwrap_or(0);

    let mut stdout = HeadTail::new(exec.output_cap_bytes);
    let mut stderr = HeadTail::new(exec.output_cap_bytes);
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (status, took) = {
        let mut pumping = pin!(async {
            let feeding = feed(pipes.0, exec.stdin);
            tokio::join!(feeding, drain(pipes.1, &mut stdout), drain(pipes.2, &mut stderr));
        });
        let mut pumped = false;
        let mut deadline = pin!(tokio::time::sleep(exec.timeout));
        let status = loop {
            tokio::select! {
                status = child.wait() => break Some(status.map_err(io("wait".to_owned()))?),
                () = &mut pumping, if !pumped => pumped = true,
                () = &mut deadline => break None,
            }
        };
        let took = started.elapsed();
        if status.is_some() && !pumped {
            pumped = tokio::time::timeout(OUTPUT_GRACE, &mut pumping).await.is_ok();
        }
        let target = guard.target.clone();
        blocking("kill left-over processes", move || processes::kill_all(&target)).await?;
        guard.armed = false;
        if !pumped {
            // With its writers dead a pipe ends at once, unless someone out of reach holds it.
            let _ = tokio::time::timeout(OUTPUT_GRACE, &mut pumping).await;
        }
        (status, took)
    };
    finish(child, status, took, (stdout, stderr)).await
}

async fn finish(
    mut child: Child,
    status: Option<ExitStatus>,
    took: Duration,
    (stdout, stderr): (HeadTail, HeadTail),
) -> Result<Exit, BackendError> {
    let timed_out = status.is_none();
    if timed_out {
        // Killed above; this takes it off the process table.
        child.wait().await.map_err(io("wait for a killed command".to_owned()))?;
    }
    let ((stdout, cut_out), (stderr, cut_err)) = (stdout.finish(), stderr.finish());
    let code = status.and_then(|status| status.code());
    Ok(Exit { code, timed_out, stdout, stderr, cut_bytes: cut_out + cut_err, took })
}

async fn start(exec: &Exec, env: Vec<(String, String)>, cwd: &str) -> Result<Child, BackendError> {
    let Some((name, args)) = exec.argv.split_first() else {
        return Err(BackendError::Unusable("a command needs at least a program".to_owned()));
    };
    // Named by its path, so that the program is started without a copy of this whole process: with
    // many commands at once that copy is what costs most, and it holds up every other thread.
    let mut path = on_path(name, &env);
    let mut tries = 0;
    loop {
        let mut command = Command::new(path.as_deref().unwrap_or(Path::new(name)));
        command.arg0(name).args(args).env_clear().envs(env.iter().map(|(k, v)| (k, v)));
        command.current_dir(cwd).process_group(0).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if exec.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        match command.spawn() {
            Ok(child) => {
                yield_to_us(&child);
                return Ok(child);
            }
            Err(error) if busy(&error) && tries < BUSY_TRIES => tries += 1,
            // A script that does not say what reads it: only the slow way hands it to a shell.
            Err(error) if path.is_some() && unreadable(&error) => path = None,
            Err(error) => {
                let what = format!("start `{name}` in {cwd} (is it installed and on PATH?)");
                return Err(io(what)(error));
            }
        }
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

/// Lets a command, and with it all that it starts, yield the processor to Rollgate.
fn yield_to_us(child: &Child) {
    use rustix::process::{Pid, getpriority_process, setpriority_process};
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let Some(pid) = pid else { return };
    let done = getpriority_process(None)
        .and_then(|ours| setpriority_process(Some(pid), (ours + NICER).min(19)));
    if let Err(error) = done {
        // One that has ended already needs no priority.
        tracing::debug!(%error, "a command keeps the priority of Rollgate");
    }
}

/// Where a program that is named without a path lies, by the `PATH` it is started with; `None` where
/// it is left to the system to find it, or to say that there is none.
fn on_path(program: &str, env: &[(String, String)]) -> Option<PathBuf> {
    if program.contains('/') {
        return None;
    }
    let (_, path) = env.iter().rev().find(|(name, _)| name == "PATH")?;
    let runs = |file: &PathBuf| {
        let found = std::fs::metadata(file);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // A relative part would be looked for in another directory than the command's.
    let dirs = path.split(':').take_while(|dir| dir.starts_with('/'));
    dirs.map(|dir| Path::new(dir).join(program)).find(runs)
}

fn unreadable(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(nix::libc::ENOEXEC)
}

fn busy(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ExecutableFileBusy
}

async fn feed(stdin: Option<ChildStdin>, bytes: Option<Vec<u8>>) {
    if let (Some(mut stdin), Some(bytes)) = (stdin, bytes) {
        // A command need not read its stdin; a broken pipe is its choice.
        let _ = stdin.write_all(&bytes).await;
        let _ = stdin.shutdown().await;
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, into: &mut HeadTail) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        into.push(buffer.get(..count).unwrap_or_default());
    }
}

/// Kills the tree of a command whose waiter went away, without holding up an async thread.
struct KillOnDrop {
    target: Target,
    armed: bool,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if self.armed {
            let target = self.target.clone();
            std::thread::spawn(move || {
                if let Err(error) = processes::kill_all(&target) {
                    tracing::warn!(%error, "a cancelled command leaves processes behind");
                }
            });
        }
    }
}
