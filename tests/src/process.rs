//! A child process with its logs, ended with its whole process group.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A running process. Dropping it kills its process group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    what: &'static str,
}

impl Process {
    /// Starts a command in a process group of its own; its output goes to files in `logs`.
    pub fn start(what: &'static str, mut command: Command, logs: &Path) -> Self {
        let (stdout, stderr) = (logs.join(format!("{what}.out")), logs.join(format!("{what}.err")));
        let file = |path: &Path| File::create(path).expect("a log file can be made");
        command.process_group(0).stdout(file(&stdout)).stderr(file(&stderr));
        command.stdin(std::process::Stdio::null());
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{what} does not start: {error}"));
        Self { child, stdout, stderr, what }
    }

    /// Waits until `ready` gives a value; panics with the logs when the process ends before, or
    /// when the time is up.
    pub fn wait_for<T>(&mut self, limit: Duration, ready: impl Fn(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(value) = ready(self) {
                return value;
            }
            let ended = self.child.try_wait().expect("the child can be asked");
            let late = begun.elapsed() > limit;
            if ended.is_some() || late {
                let what = self.what;
                let why =
                    ended.map_or_else(|| format!("not ready in {limit:?}"), |s| s.to_string());
                panic!("{what}: {why}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The first whole line of standard output, if it is there.
    pub fn first_line(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.stdout).ok()?;
        text.split_once('\n').map(|(line, _)| line.to_owned())
    }

    /// The end of what it wrote.
    pub fn logs(&self) -> String {
        let tail = |path: &Path| {
            let text = std::fs::read(path).unwrap_or_default();
            let from = text.len().saturating_sub(6_000);
            String::from_utf8_lossy(&text[from..]).into_owned()
        };
        format!("-- out\n{}\n-- err\n{}", tail(&self.stdout), tail(&self.stderr))
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9` of the process group, and the wait for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Memory of its own that the process has now and had at most, in bytes.
    pub fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("the process lives");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value =
                line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            1024 * value.unwrap_or_else(|| panic!("no {name} in {status}"))
        };
        (bytes("VmRSS:"), bytes("VmHWM:"))
    }

    /// Sends SIGTERM and waits for the end; the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits for the end; the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().ok().and_then(|status| status.code())
    }

    fn signal(&self, signal: Signal) {
        // A group that is gone already is as it should be.
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("== {}\n{}", self.what, self.logs());
        }
    }
}
