//! One container, made and started; or removed again, whatever the engine answered.
//!
//! A call whose answer is lost may have worked. The name and the labels are chosen before, so that
//! the container is found and used; one that shows up too late is left to the next sweep.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions,
};

use super::engine::{Engine, Fault};
use super::files::{self, Ids};
use super::image::Image;
use super::labels::{self, Lease};
use super::sandbox::DockerSandbox;
use super::{limits, sweep};
use crate::local::SANDBOX_MARKER;
use crate::{BackendError, Resources, Spec};

/// Folder of what is ours inside.
const INSIDE: &str = "/rollgate";
/// The mounted program, inside.
const PROGRAM: &str = "/rollgate/bin/rollgate";
/// Private HOME, inside.
const HOME: &str = "/rollgate/home";
/// Work directory, inside, of images that have none.
const WORK: &str = "/rollgate/work";
/// Temporary files, inside.
const TMP: &str = "/rollgate/tmp";

/// Makes a sandbox; nothing is left of one that fails.
pub(super) async fn make(
    engine: &Arc<Engine>,
    spec: &Spec,
    image: Image,
) -> Result<DockerSandbox, BackendError> {
    let lease = Lease::ours(spec.ttl)?;
    let name = lease.next_name();
    let plan = Plan::new(engine, spec, image, &name);
    let body = plan.body(engine, spec, labels::labels(spec, &name, &lease)?)?;
    let until = Instant::now() + engine.config.create_timeout;
    let container = create(engine, &name, body, until).await?;
    let begun = tokio::time::timeout_at(until.into(), begin(engine, &container, &plan, until));
    let begun = begun.await.unwrap_or_else(|_| {
        let fault = Fault::Lost("its time is up".to_owned());
        Err(engine.error("start it", fault))
    });
    match begun {
        Ok(ids) => Ok(DockerSandbox::new(engine.clone(), name, container, plan, ids)),
        Err(error) => {
            let end = match sweep::remove(engine, &container).await {
                Ok(()) => "it is removed".to_owned(),
                Err(again) => {
                    engine.doubt(&name);
                    format!("it is left to the next sweep: {again}")
                }
            };
            Err(BackendError::Unusable(format!("sandbox {name} did not start, {end}: {error}")))
        }
    }
}

/// Makes the container; its id.
async fn create(
    engine: &Engine,
    name: &str,
    body: ContainerCreateBody,
    until: Instant,
) -> Result<String, BackendError> {
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let asked =
        engine.call(left(until), |docker| docker.create_container(Some(options), body)).await;
    let fault = match asked {
        Ok(created) => return Ok(created.id),
        Err(fault) => fault,
    };
    if fault.ambiguous() {
        let patient = !matches!(fault, Fault::Refused { .. });
        if let Some(container) = find(engine, name, patient).await {
            tracing::info!(sandbox = name, ?fault, "a container is used whose making went wrong");
            return Ok(container);
        }
        engine.doubt(name);
    }
    Err(engine.error(&format!("make sandbox {name}"), fault))
}

/// The container of a name that we chose; a patient look waits for one that is still being made.
async fn find(engine: &Engine, name: &str, patient: bool) -> Option<String> {
    let label = format!("{}={name}", labels::SANDBOX);
    let since = Instant::now();
    let mut pause = limits::PAUSE;
    loop {
        if let Ok(found) = sweep::list(engine, &label).await
            && let Some(container) = found.into_iter().next()
        {
            return Some(container.id);
        }
        if !patient || since.elapsed() >= limits::SETTLE {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(limits::PAUSE_MOST);
    }
}

/// Fills the container and starts it; the numbers of its user.
async fn begin(
    engine: &Engine,
    container: &str,
    plan: &Plan,
    until: Instant,
) -> Result<Ids, BackendError> {
    let ids = files::ids(engine, container, &plan.user).await?;
    let mut folders = vec![HOME, TMP];
    if plan.workdir == WORK {
        folders.push(WORK);
    }
    files::put_folders(engine, container, INSIDE, &folders, ids).await?;
    let what = format!("start a container of image `{}`", plan.image);
    let started = engine.call(left(until), |docker| {
        docker.start_container(container, None::<StartContainerOptions>)
    });
    match started.await {
        Ok(()) => Ok(ids),
        Err(fault) if fault.ambiguous() && runs(engine, container).await => Ok(ids),
        Err(fault) => Err(engine.error(&what, fault)),
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

async fn runs(engine: &Engine, container: &str) -> bool {
    let asked = engine.call(limits::ASK, |docker| {
        docker.inspect_container(container, None::<InspectContainerOptions>)
    });
    let state = asked.await.ok().and_then(|inspected| inspected.state);
    state.and_then(|state| state.running).unwrap_or(false)
}

/// What a container is like, settled.
pub(super) struct Plan {
    pub image: String,
    /// As Docker writes it; empty: root.
    pub user: String,
    pub workdir: String,
    pub resources: Resources,
    /// Variables of every command; the image's own stay below them.
    pub env: Vec<String>,
}

impl Plan {
    pub const HOME: &str = HOME;
    pub const PROGRAM: &str = PROGRAM;

    fn new(engine: &Engine, spec: &Spec, image: Image, name: &str) -> Self {
        let config = &engine.config;
        let user = config.user.clone().unwrap_or(image.user);
        let of_image = Some(image.workdir).filter(|dir| !dir.is_empty() && dir != "/");
        let workdir = config.workdir.clone().or(of_image).unwrap_or_else(|| WORK.to_owned());
        let (asked, usual) = (spec.resources, config.resources);
        let resources = Resources {
            cpus: asked.cpus.or(usual.cpus),
            memory_mib: asked.memory_mib.or(usual.memory_mib),
            disk_mib: asked.disk_mib.or(usual.disk_mib),
            pids: asked.pids.or(usual.pids).or(Some(limits::DEFAULT_PIDS)),
        };
        let login = user.split(':').next().filter(|login| !login.is_empty()).unwrap_or("root");
        let env = [
            ("HOME", HOME),
            ("TMPDIR", TMP),
            ("LANG", "C.UTF-8"),
            ("USER", login),
            ("LOGNAME", login),
            (SANDBOX_MARKER, name),
            // The container's first process belongs to no command.
            (crate::local::COMMAND_MARKER, "<keeper>"),
        ];
        let env = env.map(|(name, value)| format!("{name}={value}")).to_vec();
        Self { image: image.reference, user, workdir, resources, env }
    }

    fn body(
        &self,
        engine: &Engine,
        spec: &Spec,
        labels: HashMap<String, String>,
    ) -> Result<ContainerCreateBody, BackendError> {
        let life_s = (spec.ttl + limits::TTL_MARGIN).as_secs();
        Ok(ContainerCreateBody {
            hostname: (engine.config.network != "host").then(|| "sandbox".to_owned()),
            user: Some(self.user.clone()),
            env: Some(self.env.clone()),
            // It ends by itself also when nobody is left to remove it.
            entrypoint: Some(vec!["sleep".to_owned()]),
            cmd: Some(vec![life_s.to_string()]),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            image: Some(self.image.clone()),
            working_dir: Some(self.workdir.clone()),
            labels: Some(labels),
            host_config: Some(self.host(engine, spec)?),
            ..ContainerCreateBody::default()
        })
    }

    fn host(&self, engine: &Engine, spec: &Spec) -> Result<HostConfig, BackendError> {
        let config = &engine.config;
        let bind = |from: &std::path::Path, to: &str| match from.to_str() {
            Some(text) if from.is_absolute() && to.starts_with('/') => Ok(Mount {
                source: Some(text.to_owned()),
                target: Some(to.to_owned()),
                typ: Some(MountType::BIND),
                read_only: Some(true),
                ..Mount::default()
            }),
            _ => Err(BackendError::Unusable(format!(
                "cannot mount {} at {to}: both must be absolute, in UTF-8",
                from.display()
            ))),
        };
        let mut mounts = vec![bind(&config.rollgate, PROGRAM)?];
        for mount in &spec.mounts {
            mounts.push(bind(&mount.from, &mount.to)?);
        }
        let memory = self.resources.memory_mib.map(|mib| signed(mib.saturating_mul(1 << 20)));
        let disk = self.resources.disk_mib.map(|mib| format!("{mib}M"));
        Ok(HostConfig {
            // Without swap: a limit that pages is one that stalls.
            memory,
            memory_swap: memory,
            nano_cpus: self.resources.cpus.map(nanos),
            pids_limit: self.resources.pids.map(i64::from),
            storage_opt: disk.map(|size| HashMap::from([("size".to_owned(), size)])),
            init: Some(true),
            mounts: Some(mounts),
            network_mode: Some(config.network.clone()),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(config.capabilities.clone()),
            // The first process says nothing, and commands are read as they speak.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..HostConfig::default()
        })
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Cores as the engine counts them; what is no number of cores, it refuses.
#[expect(clippy::cast_possible_truncation, reason = "saturates, and the engine judges it")]
fn nanos(cpus: f64) -> i64 {
    (cpus * 1e9) as i64
}
