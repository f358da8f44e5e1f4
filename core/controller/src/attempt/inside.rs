//! The inside of a sandbox: commands and files, each step with a deadline, cut short by a
//! cancellation. Nothing here knows the agent's key.

use std::collections::BTreeMap;
use std::time::Duration;

use rollgate_backends::{Exec, Exit, Sandbox};

use crate::limits;
use crate::outcome::Reason;
use crate::runtime::{Cancel, Halt, guard};
use crate::task::Task;

/// A sandbox with a task's work directory and environment.
pub(crate) struct Inside<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) cancel: &'a Cancel,
    /// Where commands run.
    pub(crate) workdir: String,
    /// Environment of all commands.
    pub(crate) env: BTreeMap<String, String>,
}

impl<'a> Inside<'a> {
    pub(crate) fn new(sandbox: &'a dyn Sandbox, task: &Task, cancel: &'a Cancel) -> Self {
        let workdir = match &task.workdir {
            Some(dir) => under(sandbox.workdir(), dir),
            None => sandbox.workdir().to_owned(),
        };
        Self { sandbox, cancel, workdir, env: task.env.clone() }
    }

    /// Writes the task's files and runs its set-up.
    pub(crate) async fn prepare(&self, task: &Task) -> Result<(), Halt> {
        if let Some(dir) = &task.workdir {
            self.own(dir).await?;
            let argv = ["mkdir", "-p", "--", &self.workdir].map(str::to_owned).to_vec();
            let mut exec = self.command(argv, limits::SETUP);
            exec.cwd = None;
            self.must(exec, "workdir").await?;
        }
        for (path, text) in &task.files {
            self.put(&self.path(path), text.as_bytes()).await?;
        }
        for (index, command) in task.setup.iter().enumerate() {
            let exec = self.command(command.argv(), limits::SETUP);
            self.must(exec, &format!("setup[{index}]")).await?;
        }
        Ok(())
    }

    /// An absolute work directory must be the sandbox's own. A backend without a root of its own
    /// refuses to write there, where a command would just do it, on the host.
    async fn own(&self, dir: &str) -> Result<(), Halt> {
        if !dir.starts_with('/') {
            return Ok(());
        }
        let probe = format!("{}/.rollgate-probe", self.workdir);
        self.put(&probe, b"").await.map_err(|halt| Halt {
            outcome: halt.outcome,
            reason: Reason::new("workdir", format_args!("`workdir`: {}", halt.reason.message)),
        })?;
        let mut exec = self.command(vec!["rm".to_owned(), "-f".to_owned(), probe], limits::SETUP);
        exec.cwd = None;
        self.must(exec, "workdir").await
    }

    /// A path that may be relative to the work directory.
    pub(crate) fn path(&self, path: &str) -> String {
        under(&self.workdir, path)
    }

    /// A path in HOME that did not exist and that nobody can have guessed.
    pub(crate) fn scratch(&self, what: &str) -> Result<String, Halt> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|e| Halt::infra(Reason::new("random", e)))?;
        let number = u128::from_le_bytes(bits);
        Ok(format!("{}/rollgate-{what}-{number:032x}", self.sandbox.home()))
    }

    /// A command in the work directory with the task's environment.
    pub(crate) fn command(&self, argv: Vec<String>, timeout: Duration) -> Exec {
        Exec {
            argv,
            env: self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            cwd: Some(self.workdir.clone()),
            stdin: None,
            timeout,
            output_cap_bytes: limits::COMMAND_OUTPUT_BYTES,
        }
    }

    /// A script for `sh` with its arguments.
    pub(crate) fn script(&self, text: &str, arguments: &[&str], timeout: Duration) -> Exec {
        let fixed = ["sh", "-c", text, "sh"].into_iter().chain(arguments.iter().copied());
        self.command(fixed.map(str::to_owned).collect(), timeout)
    }

    pub(crate) async fn exec(&self, step: &str, exec: Exec) -> Result<Exit, Halt> {
        let deadline = exec.timeout.saturating_add(limits::SLACK);
        let run = async { self.sandbox.exec(exec).await.map_err(|e| Reason::new(step, e)) };
        guard(step, deadline, self.cancel, run).await
    }

    pub(crate) async fn put(&self, path: &str, contents: &[u8]) -> Result<(), Halt> {
        let put =
            async { self.sandbox.put(path, contents).await.map_err(|e| Reason::new("files", e)) };
        guard("files", limits::FILE, self.cancel, put).await
    }

    pub(crate) async fn get(&self, path: &str, cap: usize) -> Result<Option<Vec<u8>>, Halt> {
        let get = async { self.sandbox.get(path, cap).await.map_err(|e| Reason::new("files", e)) };
        guard("files", limits::FILE, self.cancel, get).await
    }

    /// Whether the sandbox still runs commands: then what failed in it is not the backend's fault.
    pub(crate) async fn lives(&self) -> bool {
        let mut exec = self.command(vec!["true".to_owned()], limits::FILE);
        exec.cwd = Some("/".to_owned());
        self.exec("alive", exec).await.is_ok_and(|exit| exit.code == Some(0))
    }

    async fn must(&self, exec: Exec, what: &str) -> Result<(), Halt> {
        let exit = self.exec("setup", exec).await?;
        if exit.code == Some(0) && !exit.timed_out {
            return Ok(());
        }
        let (how, words) = (how(&exit), last_words(&exit));
        let message = format!("`{what}` {how}; its last words: {words:?}");
        Err(Halt::infra(Reason::new("setup", message)))
    }
}

fn under(dir: &str, path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", dir.trim_end_matches('/'))
    }
}

/// How a command ended, in words.
pub(crate) fn how(exit: &Exit) -> String {
    match exit.code {
        _ if exit.timed_out => "did not end in time".to_owned(),
        Some(code) => format!("exited with {code}"),
        None => "was killed by a signal".to_owned(),
    }
}

/// The last line that was printed, complaints first.
pub(crate) fn last_words(exit: &Exit) -> String {
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.map(|line| line.trim().chars().take(300).collect::<String>())
    };
    last(&exit.stderr).or_else(|| last(&exit.stdout)).unwrap_or_default()
}
