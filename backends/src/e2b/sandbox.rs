//! A sandbox in the hands of its owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::OnceCell;

use super::Inner;
use super::config::Program;
use super::daemon::{Read, Trouble, transfer};
use super::run::{self, Ground, Place};
use crate::{BackendError, Exec, Exit, Sandbox};

/// One E2B sandbox.
#[derive(Debug)]
pub(super) struct E2bSandbox {
    inner: Arc<Inner>,
    ground: Ground,
    /// Part of every tag: unique to this sandbox.
    create: String,
    home: String,
    workdir: String,
    rollgate: String,
    commands: AtomicU64,
    destroyed: AtomicBool,
    /// Whether the `rollgate` program is in it.
    uploaded: OnceCell<()>,
    /// Directory of the latest command that ended, which the next one removes.
    old: std::sync::Mutex<Option<String>>,
}

impl E2bSandbox {
    pub fn new(
        inner: Arc<Inner>,
        ground: Ground,
        create: String,
        home: String,
        workdir: String,
        rollgate: String,
    ) -> Self {
        Self {
            inner,
            ground,
            create,
            home,
            workdir,
            rollgate,
            commands: AtomicU64::new(0),
            destroyed: AtomicBool::new(false),
            uploaded: OnceCell::new(),
            old: std::sync::Mutex::new(None),
        }
    }

    fn alive(&self, what: &str) -> Result<(), BackendError> {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(self.ground.error(what, &"it is destroyed"));
        }
        match self.ground.life.gone() {
            Some(why) => Err(self.ground.error(what, &why)),
            None => Ok(()),
        }
    }

    fn swap_old(&self, new: Option<String>) -> Option<String> {
        let mut old = self.old.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::replace(&mut *old, new)
    }

    /// Brings the `rollgate` program in before its first run.
    async fn bring_rollgate(&self) -> Result<(), BackendError> {
        let Program::Upload(file) = &self.inner.config.rollgate else { return Ok(()) };
        let bring = || async move {
            let bytes = tokio::fs::read(file).await;
            let bytes = bytes.map_err(super::io(format!("read {}", file.display())))?;
            self.write(&self.rollgate, &bytes, true).await
        };
        self.uploaded.get_or_try_init(bring).await.copied()
    }

    async fn write(
        &self,
        path: &str,
        contents: &[u8],
        executable: bool,
    ) -> Result<(), BackendError> {
        let within = self.ground.reattach + transfer(contents.len());
        let what = format!("write {path}");
        let daemon = &self.ground.daemon;
        let written = self.ground.persist(&what, within, || daemon.write(path, contents));
        written.await?;
        if !executable {
            return Ok(());
        }
        let ground = &self.ground;
        let marked = ground.persist(&what, within, || async move {
            let limit = daemon.request;
            let script = "chmod 755 \"$1\"";
            match ground.script(script, &[path], None, limit).await? {
                (0, _) => Ok(()),
                (_, said) => {
                    Err(Trouble::refused("chmod", String::from_utf8_lossy(&said).into_owned()))
                }
            }
        });
        marked.await
    }
}

impl Drop for E2bSandbox {
    /// One that was not destroyed is held no longer: the next sweep, or the service, ends it.
    fn drop(&mut self) {
        self.inner.lives.release(&self.ground.life.id);
    }
}

#[async_trait::async_trait]
impl Sandbox for E2bSandbox {
    fn id(&self) -> &str {
        &self.ground.life.id
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
        self.alive("run a command")?;
        if exec.argv.contains(&self.rollgate) {
            self.bring_rollgate().await?;
        }
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{}-{number}", self.create);
        let dir = format!("{}/.rollgate/{tag}", self.home);
        let cwd = exec.cwd.clone().unwrap_or_else(|| self.workdir.clone());
        let place = Place { tag, dir: dir.clone(), old: self.swap_old(None), cwd };
        match run::run(&self.ground, exec, place).await {
            Ok(exit) => {
                self.swap_old(Some(dir));
                Ok(exit)
            }
            Err((error, false)) => Err(error),
            Err((error, true)) => {
                // What cannot be killed in it goes with it.
                self.ground.life.lost("a command in it could not be killed");
                match self.destroy().await {
                    Ok(()) => Err(BackendError::Unusable(format!("{error}; it was destroyed"))),
                    Err(second) => Err(BackendError::Unusable(format!("{error}; {second}"))),
                }
            }
        }
    }

    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), BackendError> {
        self.alive("write a file")?;
        self.absolute(path)?;
        self.write(path, contents, contents.starts_with(b"#!")).await
    }

    async fn get(&self, path: &str, cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError> {
        self.alive("read a file")?;
        self.absolute(path)?;
        let (ground, what) = (&self.ground, format!("read {path}"));
        let read = ground
            .persist(&what, ground.reattach, async || ground.daemon.read(path, cap_bytes).await);
        match read.await? {
            Read::Contents(bytes) => Ok(Some(bytes)),
            Read::Absent => Ok(None),
            Read::TooLarge => {
                Err(ground.error(&what, &format!("it is larger than {cap_bytes} bytes")))
            }
        }
    }

    async fn destroy(&self) -> Result<(), BackendError> {
        self.destroyed.store(true, Ordering::Release);
        // First, so that what still waits for it ends.
        self.ground.life.lost("it is destroyed");
        self.inner.lives.release(self.id());
        let killed = self.inner.control.kill(self.id()).await;
        let address = &self.ground.daemon.address;
        if !self.inner.shared_origin(&address.origin) {
            self.inner.transport.forget(&address.origin);
        }
        killed
    }
}

impl E2bSandbox {
    fn absolute(&self, path: &str) -> Result<(), BackendError> {
        if path.starts_with('/') {
            return Ok(());
        }
        Err(self.ground.error(&format!("use `{path}`"), &"paths have to be absolute"))
    }
}
