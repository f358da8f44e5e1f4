//! Sandboxes on this machine: private directories and process groups, no namespaces.
//!
//! A sandbox is `ROOT/ID/{work,home,tmp}`, mode 0700, with a lease that says which process owns it.
//! Every command carries a marker in its environment, so that what it leaves behind is found and
//! killed even after `setsid` and a double fork. This keeps honest agents apart; it does not hold a
//! hostile one, which runs as the same user as Rollgate.

mod files;
mod lease;
mod output;
mod processes;
mod run;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Backend, BackendError, Exec, Exit, Reach, Sandbox, Spec};
use lease::Lease;
use processes::Target;

/// Environment variable with the sandbox's id, in every process of the sandbox.
pub const SANDBOX_MARKER: &str = "ROLLGATE_SANDBOX";
/// Environment variable with the number of the command, in every process it started.
pub const COMMAND_MARKER: &str = "ROLLGATE_COMMAND";

/// Sandboxes made so far by this process. One counter for all backends in it: ids, and with them
/// the markers, must be unique on the machine.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// Where and how local sandboxes are made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalConfig {
    /// Directory that holds the sandboxes; made when missing.
    pub root: PathBuf,
    /// The `rollgate` program that sandboxes may call.
    pub rollgate: PathBuf,
    /// Keep the directories of finished sandboxes, to look at them.
    pub keep: bool,
    /// `PATH` of the commands.
    pub path_env: String,
}

/// The backend of this machine.
#[derive(Debug)]
pub struct Local {
    config: LocalConfig,
    user: String,
}

impl Local {
    /// A backend; touches nothing before the first `create` or `sweep`.
    pub fn new(config: LocalConfig) -> Self {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid())
            .ok()
            .flatten()
            .map_or_else(|| "agent".to_owned(), |user| user.name);
        Self { config, user }
    }
}

#[async_trait::async_trait]
impl Backend for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn isolation(&self) -> String {
        "process group + private directories (no namespaces): commands run as this user, see this \
         machine's files and network, and have no limit on memory or disk"
            .to_owned()
    }

    async fn reach(&self) -> Result<Reach, BackendError> {
        Ok(Reach::Loopback)
    }

    async fn create(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let (root, spec) = (self.config.root.clone(), spec.clone());
        let dir = blocking("create a sandbox", move || make(&root, number, &spec)).await?;
        let id = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let id = id.ok_or_else(|| BackendError::Unusable("sandbox without a name".to_owned()))?;
        Ok(Box::new(LocalSandbox {
            workdir: text(&dir.join("work"))?,
            home: text(&dir.join("home"))?,
            tmp: text(&dir.join("tmp"))?,
            rollgate: text(&self.config.rollgate)?,
            path_env: self.config.path_env.clone(),
            user: self.user.clone(),
            keep: self.config.keep,
            id,
            dir,
            commands: AtomicU64::new(0),
            gone: AtomicBool::new(false),
        }))
    }

    async fn sweep(&self) -> Result<usize, BackendError> {
        let root = self.config.root.clone();
        blocking("sweep sandboxes", move || sweep(&root)).await
    }
}

#[derive(Debug)]
struct LocalSandbox {
    id: String,
    dir: PathBuf,
    workdir: String,
    home: String,
    tmp: String,
    rollgate: String,
    path_env: String,
    user: String,
    keep: bool,
    /// Commands started so far; numbers their markers.
    commands: AtomicU64,
    gone: AtomicBool,
}

impl LocalSandbox {
    /// The whole environment of a command: nothing of ours leaks in, the markers win.
    fn environment(&self, command: u64, given: &[(String, String)]) -> Vec<(String, String)> {
        let base = [
            ("PATH", self.path_env.as_str()),
            ("HOME", &self.home),
            ("TMPDIR", &self.tmp),
            ("LANG", "C.UTF-8"),
            ("USER", &self.user),
            ("LOGNAME", &self.user),
        ];
        let mut env: Vec<(String, String)> =
            base.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        env.extend_from_slice(given);
        env.push((SANDBOX_MARKER.to_owned(), self.id.clone()));
        env.push((COMMAND_MARKER.to_owned(), command.to_string()));
        env
    }

    fn alive(&self) -> Result<(), BackendError> {
        if self.gone.load(Ordering::Acquire) {
            return Err(BackendError::Unusable(format!("sandbox {} is destroyed", self.id)));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Sandbox for LocalSandbox {
    fn id(&self) -> &str {
        &self.id
    }

    fn workdir(&self) -> &str {
        &self.workdir
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn rollgate(&self) -> &str {
        &self.rollgate
    }

    async fn exec(&self, exec: Exec) -> Result<Exit, BackendError> {
        self.alive()?;
        let command = self.commands.fetch_add(1, Ordering::Relaxed);
        let env = self.environment(command, &exec.env);
        let cwd = exec.cwd.clone().unwrap_or_else(|| self.workdir.clone());
        let target = Target::command(&self.id, &self.dir, command);
        run::run(exec, env, &cwd, target).await
    }

    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), BackendError> {
        self.alive()?;
        let (dir, path, contents) = (self.dir.clone(), PathBuf::from(path), contents.to_vec());
        blocking("write a file", move || files::put(&dir, &path, &contents)).await
    }

    async fn get(&self, path: &str, cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError> {
        self.alive()?;
        let (dir, path) = (self.dir.clone(), PathBuf::from(path));
        blocking("read a file", move || files::get(&dir, &path, cap_bytes)).await
    }

    async fn destroy(&self) -> Result<(), BackendError> {
        self.gone.store(true, Ordering::Release);
        let (id, dir, keep) = (self.id.clone(), self.dir.clone(), self.keep);
        blocking("destroy a sandbox", move || {
            processes::kill_all(&Target::sandbox(&id, &dir))?;
            if keep { lease::release(&dir) } else { files::remove(&dir) }
        })
        .await
    }
}

/// Makes the directories and the lease of one sandbox.
fn make(root: &Path, number: u64, spec: &Spec) -> Result<PathBuf, BackendError> {
    let lease = Lease::ours(spec)?;
    files::make_private(root)?;
    let root = root.canonicalize().map_err(io(format!("resolve {}", root.display())))?;
    let dir = root.join(lease.sandbox_id(number));
    std::fs::create_dir(&dir).map_err(io(format!("make {}", dir.display())))?;
    files::make_private(&dir)?;
    // The lease comes first: from here on a sweep can clean up after us.
    lease::write(&dir, &lease)?;
    for name in files::OPEN_DIRS {
        files::make_private(&dir.join(name))?;
    }
    Ok(dir)
}

/// Removes the sandboxes of dead owners. One that resists is reported and does not stop the others.
fn sweep(root: &Path) -> Result<usize, BackendError> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(io(format!("list {}", root.display()))(error)),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry.map_err(io(format!("list {}", root.display())))?;
        let Ok(dir) = entry.path().canonicalize() else { continue };
        let id = entry.file_name().to_string_lossy().into_owned();
        // An owner that was killed while it made or removed a sandbox leaves one without a lease.
        let held = lease::read(&dir).map(|lease| lease.held());
        if held.or_else(|| lease::owner_lives(&dir, &id)).unwrap_or(true) {
            continue;
        }
        let swept =
            processes::kill_all(&Target::sandbox(&id, &dir)).and_then(|()| files::remove(&dir));
        match swept {
            Ok(()) => removed += 1,
            Err(error) => tracing::warn!(sandbox = id, %error, "a left-over sandbox stays"),
        }
    }
    Ok(removed)
}

/// When a living process started, in clock ticks since boot; `None` when there is none.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    processes::start_ticks(pid)
}

/// Which boot of this machine it is.
pub(crate) fn boot_id() -> String {
    lease::boot_id()
}

/// Runs file and process work off the async threads.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(BackendError::Unusable(format!("cannot {what}: {error}"))),
    }
}

fn io(what: String) -> impl FnOnce(std::io::Error) -> BackendError {
    move |source| BackendError::Io { what: format!("cannot {what}"), source }
}

fn text(path: &Path) -> Result<String, BackendError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        BackendError::Unusable(format!("{} is not UTF-8; choose another path", path.display()))
    })
}

#[cfg(test)]
mod tests;
