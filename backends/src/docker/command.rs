//! One command from start to a clean container: output drained, deadline kept, nothing left running.
//!
//! An engine cannot kill a command, and one whose client goes away runs on. So commands run under
//! a small shell script, `command.sh`, which kills what is left when the command ends, and tells
//! how it ended in its last line of stderr; on a deadline the same script kills from a command of
//! its own. Where even that fails, the container is killed.

mod output;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::engine::Fault;
use super::limits;
use super::sandbox::Place;
use crate::local::COMMAND_MARKER;
use crate::{BackendError, Exec, Exit};
use output::{Output, Report};

const SCRIPT: &str = include_str!("command.sh");
/// The mark of commands that only clean up.
const KILLER: &str = "killer";

type Lines = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// How reading a command's output ended.
enum End {
    /// The script told how the command ended.
    Told(Report),
    /// The output ended without a word.
    Silent,
    /// The connection broke.
    Broken(String),
    /// Its time is up.
    Late,
}

/// Runs a command; `workdir` is where it runs unless it says where.
pub(super) async fn run(
    place: &Arc<Place>,
    exec: Exec,
    number: u64,
    workdir: &str,
) -> Result<Exit, BackendError> {
    let Some(program) = exec.argv.first().cloned() else {
        return Err(BackendError::Unusable("a command needs at least a program".to_owned()));
    };
    check_names(&exec.env)?;
    let cwd = exec.cwd.clone().unwrap_or_else(|| workdir.to_owned());
    let nonce = format!("{}/{number}", place.id);
    let mut argv = script("run", &number.to_string());
    argv.extend([nonce.clone(), cwd.clone()]);
    argv.extend(exec.argv);
    // Armed before the engine is asked: a command may run although its start was not answered.
    let mut guard = KillOnDrop { place: place.clone(), number, armed: true };
    let started = begin(place, argv, &exec.env, number, exec.stdin.is_some()).await;
    let (id, lines, input) = match started {
        Ok(started) => started,
        Err(fault) => {
            guard.armed = fault.ambiguous() && fault.status().is_none();
            return Err(not_started(place, &program, fault).await);
        }
    };
    let began = Instant::now();
    let mut output = Output::new(exec.output_cap_bytes, &nonce);
    let end = attend(lines, input, exec.stdin, exec.timeout, &mut output).await;
    let took = began.elapsed();
    let (code, timed_out) = match end {
        End::Told(report) => {
            guard.armed = false;
            if report.left {
                place.condemn("processes of a command survive SIGKILL").await?;
            }
            if report.ooms > 0 {
                output.note(&format!(
                    "[rollgate: out of memory: the kernel killed {} process(es) of this sandbox{}]",
                    report.ooms,
                    place.memory_limit()
                ));
            }
            match report.code {
                Some(code) => (Some(code), false),
                None => {
                    return Err(BackendError::Unusable(format!(
                        "cannot start `{program}`: there is no folder {cwd} in sandbox {}",
                        place.id
                    )));
                }
            }
        }
        End::Late => {
            kill(place, number).await?;
            guard.armed = false;
            (None, true)
        }
        End::Silent => {
            let code = silent(place, &id, &program, &output).await?;
            let obstacle = kill(place, number).await?;
            guard.armed = false;
            if let Some(obstacle) = obstacle {
                return Err(cut_off(&program, &obstacle));
            }
            (Some(code), false)
        }
        End::Broken(why) => return Err(broken(place, &program, Fault::Lost(why)).await),
    };
    let (stdout, stderr, cut_bytes) = output.finish();
    Ok(Exit { code, timed_out, stdout, stderr, cut_bytes, took })
}

/// Refuses variables that some shells would drop without a word.
fn check_names(env: &[(String, String)]) -> Result<(), BackendError> {
    let good = |name: &str| {
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        starts && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match env.iter().find(|(name, _)| !good(name)) {
        Some((name, _)) => Err(BackendError::Unusable(format!(
            "a variable cannot be called `{name}` in a container: letters, digits and `_` only"
        ))),
        None => Ok(()),
    }
}

/// The script in front of a command, without its remarks.
fn script(mode: &str, mark: &str) -> Vec<String> {
    let lines = SCRIPT.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.map(str::trim_start).collect::<Vec<_>>().join("\n");
    ["/bin/sh", "-c", &text, "rollgate", mode, mark].map(str::to_owned).to_vec()
}

/// Starts a command; its id, output and input.
async fn begin(
    place: &Place,
    argv: Vec<String>,
    env: &[(String, String)],
    number: impl std::fmt::Display,
    stdin: bool,
) -> Result<(String, Lines, Input), Fault> {
    let mut env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    env.push(format!("{COMMAND_MARKER}=<{number}>"));
    let config = ExecConfig {
        attach_stdin: Some(stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        env: Some(env),
        cmd: Some(argv),
        ..ExecConfig::default()
    };
    let closed = |_| Fault::Unreachable("this backend shuts down".to_owned());
    let _permit = place.engine.starts.acquire().await.map_err(closed)?;
    let made = place
        .engine
        .call(limits::EXEC_START, |docker| docker.create_exec(&place.container, config))
        .await?;
    let started =
        place.engine.call(limits::EXEC_START, |docker| docker.start_exec(&made.id, None)).await?;
    match started {
        StartExecResults::Attached { output, input } => Ok((made.id, output, input)),
        StartExecResults::Detached => Err(Fault::Lost("the engine detached the command".into())),
    }
}

/// Feeds and drains a command until it ends or is late.
async fn attend(
    mut lines: Lines,
    input: Input,
    stdin: Option<Vec<u8>>,
    timeout: Duration,
    output: &mut Output,
) -> End {
    let mut feeding = pin!(feed(input, stdin));
    let mut fed = false;
    let mut deadline = pin!(tokio::time::sleep(timeout));
    let mut report = None;
    loop {
        tokio::select! {
            line = lines.next() => match line {
                Some(Ok(line)) => output.push(line),
                Some(Err(error)) if report.is_none() => return End::Broken(error.to_string()),
                Some(Err(_)) | None => break,
            },
            () = &mut feeding, if !fed => fed = true,
            () = &mut deadline => break,
        }
        if report.is_none() {
            report = output.report();
            if report.is_some() {
                // Stdout has a way of its own and may still be on it.
                deadline.as_mut().reset(tokio::time::Instant::now() + limits::OUTPUT_GRACE);
            }
        }
    }
    match report {
        Some(report) => End::Told(report),
        None if deadline.is_elapsed() => End::Late,
        None => End::Silent,
    }
}

async fn feed(mut input: Input, stdin: Option<Vec<u8>>) {
    if let Some(bytes) = stdin {
        // A command need not read its stdin; a broken pipe is its choice.
        let _ = input.write_all(&bytes).await;
        let _ = input.shutdown().await;
    }
    // Kept: an engine may take its end for the end of the connection.
    std::future::pending::<()>().await;
}

/// The exit code of a command whose script did not live to tell it.
async fn silent(
    place: &Place,
    id: &str,
    program: &str,
    output: &Output,
) -> Result<i32, BackendError> {
    let asked = place.engine.call(limits::ASK, |docker| docker.inspect_exec(id)).await;
    let inspected = match asked {
        Ok(inspected) => inspected,
        Err(fault) => return Err(broken(place, program, fault).await),
    };
    if let Some(obstacle) = place.obstacle().await? {
        return Err(cut_off(program, &obstacle));
    }
    let code = inspected.exit_code.and_then(|code| i32::try_from(code).ok());
    let said = output.peek();
    if said.to_lowercase().contains("argument list too long") {
        return Err(BackendError::Unusable(format!(
            "cannot start `{program}`: its arguments and variables are too long for the kernel \
             (128 KiB each); give long texts by stdin or as a file: {}",
            said.trim()
        )));
    }
    if said.contains("OCI runtime exec failed") {
        return Err(BackendError::Unusable(format!(
            "cannot run commands in image `{}`; it needs a POSIX shell at /bin/sh, and room for a \
             process: {}",
            place.image,
            said.trim()
        )));
    }
    match code {
        Some(code) if !inspected.running.unwrap_or(false) => Ok(code),
        _ => Err(broken(place, program, Fault::Lost("its output ended too early".into())).await),
    }
}

/// A command that did not start.
async fn not_started(place: &Place, program: &str, fault: Fault) -> BackendError {
    if matches!(fault, Fault::Refused { .. })
        && let Ok(Some(obstacle)) = place.obstacle().await
    {
        return BackendError::Unusable(format!("cannot start `{program}`: {obstacle}"));
    }
    place.engine.error(&format!("start `{program}` in sandbox {}", place.id), fault)
}

fn cut_off(program: &str, obstacle: &str) -> BackendError {
    BackendError::Unusable(format!("`{program}` was cut off: {obstacle}"))
}

/// A command whose end nobody knows.
async fn broken(place: &Place, program: &str, fault: Fault) -> BackendError {
    match place.obstacle().await {
        Ok(Some(obstacle)) => cut_off(program, &obstacle),
        Ok(None) | Err(_) => place
            .engine
            .error(&format!("follow `{program}` in sandbox {} to its end", place.id), fault),
    }
}

/// Kills the tree of a command, or the whole container where that fails; then, or when it is dead
/// already, says so.
async fn kill(place: &Place, number: u64) -> Result<Option<String>, BackendError> {
    let why = match tokio::time::timeout(limits::KILL, kill_tree(place, number)).await {
        Ok(Ok(())) => return Ok(None),
        Ok(Err(why)) => why,
        Err(_) => format!("{} s were not enough", limits::KILL.as_secs()),
    };
    // A container that is just dying does not say so at once.
    tokio::time::sleep(limits::PAUSE).await;
    if let Some(obstacle) = place.obstacle().await? {
        return Ok(Some(obstacle));
    }
    let why = format!("the processes of a command could not be killed: {why}");
    place.condemn(&why).await?;
    Ok(Some(why))
}

async fn kill_tree(place: &Place, number: u64) -> Result<(), String> {
    let mut argv = script("kill", &number.to_string());
    argv.push(KILLER.to_owned());
    let begun = begin(place, argv, &[], KILLER, false).await;
    let (_, lines, input) = begun.map_err(|fault| format!("{fault:?}"))?;
    let mut output = Output::new(limits::SAID_BYTES, KILLER);
    match attend(lines, input, None, limits::KILL, &mut output).await {
        End::Told(report) if !report.left => Ok(()),
        End::Told(_) => Err("some survive SIGKILL".to_owned()),
        End::Broken(why) => Err(why),
        End::Silent | End::Late => Err(output.peek().trim().to_owned()),
    }
}

/// Kills the tree of a command whose waiter went away.
struct KillOnDrop {
    place: Arc<Place>,
    number: u64,
    armed: bool,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (place, number) = (self.place.clone(), self.number);
        runtime.spawn(async move {
            if let Ok(Some(_)) | Err(_) = place.obstacle().await {
                return;
            }
            if let Err(error) = kill(&place, number).await {
                tracing::warn!(%error, "a cancelled command leaves processes behind");
            }
        });
    }
}
