//! One container as a sandbox.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bollard::query_parameters::{InspectContainerOptions, KillContainerOptions};

use super::create::Plan;
use super::engine::Engine;
use super::files::Ids;
use super::{command, files, limits, program, sweep};
use crate::{BackendError, Exec, Exit, Sandbox};

/// What commands share with those that clean up after them.
pub(super) struct Place {
    pub engine: Arc<Engine>,
    /// The sandbox's name.
    pub id: String,
    /// The engine's id of the container.
    pub container: String,
    pub image: String,
    pub memory_mib: Option<u64>,
    /// Why it may not be used any more, once its container had to be killed.
    pub condemned: Mutex<Option<String>>,
}

impl Place {
    /// Kills the whole container, since less did not help; whoever comes next is told.
    pub async fn condemn(&self, why: &str) -> Result<(), BackendError> {
        self.condemned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| why.to_owned());
        tracing::warn!(sandbox = self.id, why, "a sandbox is killed whole");
        let killed = self.engine.call(limits::REMOVE, |docker| {
            docker.kill_container(&self.container, None::<KillContainerOptions>)
        });
        match killed.await {
            Ok(()) => Ok(()),
            // Gone, or ended by itself.
            Err(fault) if matches!(fault.status(), Some(404 | 409)) => Ok(()),
            Err(fault) => {
                let what = format!("kill sandbox {} ({why})", self.id);
                Err(self.engine.error(&what, fault))
            }
        }
    }

    /// Why commands cannot run here; `None` when the container runs.
    pub async fn obstacle(&self) -> Result<Option<String>, BackendError> {
        let id = &self.id;
        let condemned = self.condemned.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(why) = condemned {
            return Ok(Some(format!("sandbox {id} was killed whole: {why}")));
        }
        let asked = self.engine.call(limits::ASK, |docker| {
            docker.inspect_container(&self.container, None::<InspectContainerOptions>)
        });
        let state = match asked.await {
            Ok(inspected) => inspected.state.unwrap_or_default(),
            Err(fault) if fault.status() == Some(404) => {
                return Ok(Some(format!(
                    "sandbox {id} is gone: somebody removed its container, or its time was up"
                )));
            }
            Err(fault) => return Err(self.engine.error(&format!("look at sandbox {id}"), fault)),
        };
        if state.running.unwrap_or(false) {
            return Ok(None);
        }
        let (code, ended) = (state.exit_code.unwrap_or(0), state.finished_at.unwrap_or_default());
        let why = if state.oom_killed.unwrap_or(false) {
            format!("the kernel killed it for memory{}", self.memory_limit())
        } else if code == 0 {
            "its time was up".to_owned()
        } else if code == 127 {
            format!("an image needs `sleep`, and `{}` has none on its PATH", self.image)
        } else {
            format!("its first process ended with {code}; it was killed, or the engine restarted")
        };
        Ok(Some(format!("sandbox {id} died at {ended}: {why}")))
    }

    /// The memory limit, for people.
    pub fn memory_limit(&self) -> String {
        self.memory_mib.map_or_else(String::new, |mib| format!(" (limit {mib} MiB)"))
    }
}

/// A container that somebody holds.
pub(super) struct DockerSandbox {
    place: Arc<Place>,
    workdir: String,
    ids: Ids,
    /// Commands started so far; numbers their marks.
    commands: AtomicU64,
    gone: AtomicBool,
}

impl DockerSandbox {
    pub fn new(engine: Arc<Engine>, id: String, container: String, plan: Plan, ids: Ids) -> Self {
        let memory_mib = plan.resources.memory_mib;
        let condemned = Mutex::default();
        let place = Place { engine, id, container, image: plan.image, memory_mib, condemned };
        let (commands, gone) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { place: Arc::new(place), workdir: plan.workdir, ids, commands, gone }
    }

    fn alive(&self) -> Result<(), BackendError> {
        if self.gone.load(Ordering::Acquire) {
            return Err(BackendError::Unusable(format!("sandbox {} is destroyed", self.place.id)));
        }
        Ok(())
    }

    /// Says so when the `rollgate` program is of another world than the image.
    fn fits(&self, exit: Exit) -> Result<Exit, BackendError> {
        let config = &self.place.engine.config;
        let complaint = String::from_utf8_lossy(&exit.stderr);
        let no_loader = exit.code == Some(127);
        let old_library = complaint.contains("GLIBC_") && complaint.contains("not found");
        if !no_loader && !old_library {
            return Ok(exit);
        }
        let need = match program::loader(&config.rollgate) {
            Some(loader) => format!(
                "it needs the loader {loader} and the C library it was built \
                with, which this image lacks or has too old"
            ),
            None => "the image cannot run it".to_owned(),
        };
        Err(BackendError::Unusable(format!(
            "the program {} does not run in image `{}`: {need}; use an image with that library, \
             or a static build of rollgate (target `x86_64-unknown-linux-musl`); it said: {}",
            config.rollgate.display(),
            self.place.image,
            complaint.trim()
        )))
    }
}

#[async_trait::async_trait]
impl Sandbox for DockerSandbox {
    fn id(&self) -> &str {
        &self.place.id
    }

    fn workdir(&self) -> &str {
        &self.workdir
    }

    fn home(&self) -> &str {
        Plan::HOME
    }

    fn rollgate(&self) -> &str {
        Plan::PROGRAM
    }

    async fn exec(&self, exec: Exec) -> Result<Exit, BackendError> {
        self.alive()?;
        let ours = exec.argv.first().is_some_and(|program| program == Plan::PROGRAM);
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let exit = command::run(&self.place, exec, number, &self.workdir).await?;
        if ours { self.fits(exit) } else { Ok(exit) }
    }

    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), BackendError> {
        self.alive()?;
        files::put(&self.place.engine, &self.place.container, path, contents, self.ids).await
    }

    async fn get(&self, path: &str, cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError> {
        self.alive()?;
        files::get(&self.place.engine, &self.place.container, path, cap_bytes).await
    }

    async fn destroy(&self) -> Result<(), BackendError> {
        self.gone.store(true, Ordering::Release);
        let place = self.place.clone();
        // Goes on when the asker goes away.
        let removing = tokio::spawn(async move {
            let removed = sweep::remove(&place.engine, &place.container).await;
            if removed.is_err() {
                place.engine.doubt(&place.id);
            }
            removed
        });
        match removing.await {
            Ok(removed) => removed,
            Err(_) => Err(BackendError::Unusable("the runtime ended meanwhile".to_owned())),
        }
    }
}
