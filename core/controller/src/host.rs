//! Programs on this machine that speak JSON: one object on stdin, one on stdout.
//!
//! They get a short environment (`PATH`, `HOME`, `LANG`, `TMPDIR` and what their owner sets), never
//! an agent's key. At the deadline, and when nobody waits any more, their process group is killed.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::limits;

/// Variables of Rollgate's own environment that programs see.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// How long output may go on after the program itself ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// It cannot be started.
    #[error("cannot start `{program}`: {source} (is it there and executable?)")]
    Start {
        /// First word of the command line.
        program: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// It did not end in time and was killed.
    #[error("it did not end within {0:?}")]
    Late(Duration),
    /// It ended with an error.
    #[error("it {how}; its last words: {words:?}")]
    Failed {
        /// How it ended.
        how: String,
        /// The last line it printed, complaints first.
        words: String,
    },
    /// Its output is not JSON, or too long.
    #[error("its output {0}")]
    Output(String),
    /// A variable that is asked for is not set.
    #[error(transparent)]
    Unset(#[from] Unset),
}

/// A variable of Rollgate's own environment that is asked for and not set.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is not set in Rollgate's environment, and `{key}` asks for it")]
pub struct Unset {
    name: String,
    key: String,
}

/// Runs a program with `input` on its stdin. Its answer is the JSON on its stdout; no output at all
/// is `null`.
pub(crate) async fn ask(
    argv: &[String],
    env: &BTreeMap<String, String>,
    input: &Value,
    deadline: Duration,
) -> Result<Value, HostError> {
    let (program, arguments) = argv.split_first().map_or(("", argv), |(p, rest)| (p, rest));
    let mut command = Command::new(program);
    let inherited = PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.args(arguments).env_clear().envs(inherited).envs(expanded(env)?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let started = command.spawn();
    let child =
        started.map_err(|source| HostError::Start { program: program.to_owned(), source })?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()));
    let ended = tokio::time::timeout(deadline, talk(child, input.to_string().into_bytes())).await;
    drop(group);
    let (status, stdout, stderr) = ended.map_err(|_| HostError::Late(deadline))??;
    if !status.success() {
        let how = match status.code() {
            Some(code) => format!("exited with {code}"),
            None => "was killed by a signal".to_owned(),
        };
        let words = if stderr.is_empty() { &stdout } else { &stderr };
        return Err(HostError::Failed { how, words: last_line(words) });
    }
    if stdout.len() > limits::PROGRAM_OUTPUT_BYTES {
        let most = limits::PROGRAM_OUTPUT_BYTES;
        return Err(HostError::Output(format!("is over {most} bytes")));
    }
    if stdout.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&stdout).map_err(|e| HostError::Output(format!("is not JSON: {e}")))
}

type Spoken = (std::process::ExitStatus, Vec<u8>, Vec<u8>);

async fn talk(mut child: Child, input: Vec<u8>) -> Result<Spoken, HostError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut out = Vec::new();
    let mut complaints = Vec::new();
    let status = {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program need not read its input; a broken pipe is its choice.
                let _ = stdin.write_all(&input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let pump =
            async { tokio::join!(feed, read(stdout, &mut out), read(stderr, &mut complaints)) };
        tokio::pin!(pump);
        let mut pumped = false;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                _ = &mut pump, if !pumped => pumped = true,
            }
        };
        if !pumped {
            // A grandchild may hold the pipe for ever.
            let _ = tokio::time::timeout(OUTPUT_GRACE, &mut pump).await;
        }
        status.map_err(|e| HostError::Output(format!("cannot be waited for: {e}")))?
    };
    Ok((status, out, complaints))
}

/// Reads to the end; keeps one byte more than is allowed, to tell that there was more.
async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 32 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = (limits::PROGRAM_OUTPUT_BYTES + 1).saturating_sub(into.len());
        into.extend_from_slice(buffer.get(..count.min(room)).unwrap_or_default());
    }
}

/// The program's process group, killed when it goes out of scope.
struct Group(Option<i32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // Nobody left in it is what we want.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(300).collect()
}

/// The map with each `${NAME}` replaced by that variable of Rollgate's own environment, and
/// `${NAME:-text}` by `text` where it is not set. Done at the last moment, so that secrets are in
/// no task and no file.
pub(crate) fn expanded(map: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Unset> {
    let look = |name: &str| std::env::var(name).ok();
    let one = |(key, value): (&String, &String)| Ok((key.clone(), expand(key, value, &look)?));
    map.iter().map(one).collect()
}

fn expand(key: &str, text: &str, look: &dyn Fn(&str) -> Option<String>) -> Result<String, Unset> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, later)) = after.split_once('}') else { break };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        let value = look(name).or(default);
        out.push_str(before);
        out.push_str(&value.ok_or_else(|| Unset { name: name.to_owned(), key: key.to_owned() })?);
        rest = later;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    async fn sh(script: &str, input: Value) -> Result<Value, String> {
        let argv = ["sh", "-c", script].map(str::to_owned);
        let asked = ask(&argv, &BTreeMap::new(), &input, Duration::from_secs(2)).await;
        asked.map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn json_goes_in_and_comes_out() {
        assert_eq!(sh("cat", json!({"a": 1})).await, Ok(json!({"a": 1})));
        assert_eq!(sh("exit 0", json!({})).await, Ok(Value::Null), "input need not be read");
        for (script, what) in [
            ("echo no; echo why >&2; exit 3", "it exited with 3; its last words: \"why\""),
            ("kill -9 $$", "killed by a signal"),
            ("echo {", "its output is not JSON"),
            ("head -c 1048577 /dev/zero", "is over 1048576 bytes"),
        ] {
            let error = sh(script, json!({})).await.unwrap_err();
            assert!(error.contains(what), "{script}: {error}");
        }
        let none = ask(&["/no/such".to_owned()], &BTreeMap::new(), &json!(0), limits::HOOK).await;
        assert!(none.unwrap_err().to_string().contains("cannot start `/no/such`"));
    }

    #[tokio::test]
    async fn row_44_a_long_input_goes_by_stdin() {
        let long = json!({"instruction": "x".repeat(300_000)});
        assert_eq!(sh("wc -c | tr -d ' '", long).await, Ok(json!(300_018)));
    }

    #[tokio::test]
    async fn row_43_a_flood_of_complaints_is_cut() {
        let error = sh("head -c 30000000 /dev/zero | tr '\\0' a >&2; exit 1", json!({})).await;
        assert!(error.unwrap_err().len() < 1_000);
    }

    #[tokio::test]
    async fn a_late_program_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let started = Instant::now();
        assert!(sh(&script, json!({})).await.unwrap_err().contains("did not end within 2s"));
        assert!(started.elapsed() < Duration::from_secs(10));
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        for _ in 0..100 {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{pid} lives");
    }

    #[tokio::test]
    async fn a_grandchild_that_holds_the_pipe_hangs_nothing() {
        let started = Instant::now();
        assert_eq!(sh("sleep 1000 & echo 1", json!({})).await, Ok(json!(1)));
        assert!(started.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn variables_are_looked_up_or_have_a_default() {
        let look = |name: &str| (name == "A").then(|| "1".to_owned());
        let check = |text: &str| expand("k", text, &look).map_err(|e| e.to_string());
        assert_eq!(check("Bearer ${A}-${B:-two}${C:-}").as_deref(), Ok("Bearer 1-two"));
        assert_eq!(check("$A ${A").as_deref(), Ok("$A ${A"));
        let error = check("${B}").unwrap_err();
        assert_eq!(error, "`B` is not set in Rollgate's environment, and `k` asks for it");
    }
}
