//! A sandbox is made once, whatever becomes of the answers, and handed over when it can be used.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::address::Address;
use super::config::Program;
use super::control::{Made, Tried};
use super::daemon::{Daemon, Trouble};
use super::limits;
use super::mounts::{self, Archive};
use super::owner;
use super::pause::{Pauses, unique};
use super::run::Ground;
use super::sandbox::E2bSandbox;
use super::{Inner, script};
use crate::{BackendError, Spec};

/// Tries to see the sandbox through, its time running against the spec's own.
pub(super) async fn create(inner: Arc<Inner>, spec: Spec) -> Result<E2bSandbox, BackendError> {
    if spec.resources.pids.is_some() {
        let what = "e2b: a limit on processes cannot be set; leave `pids` out";
        return Err(BackendError::Unusable(what.to_owned()));
    }
    let archive = mounts::pack(&spec.mounts).await?;
    let create = unique()?;
    let creating = inner.lives.creating(&create);
    let pass = inner.gate.enter().await;
    let until = Instant::now() + spec.ttl;
    let (made, unclear) = ask(&inner, &spec, &create).await?;
    let life = inner.lives.hold(&made.id, until, &inner.control);
    let ground = match ground(&inner, &made, life) {
        Ok(ground) => ground,
        Err(error) => return Err(given_up(&inner, &made.id, error).await),
    };
    if unclear {
        kill_doubles(&inner, &create, &made.id).await;
    }
    let ready = ready(&inner, &spec, &made, &ground, archive).await;
    drop((pass, creating));
    match ready {
        Ok((home, workdir)) => {
            inner.gate.passed();
            let rollgate = match &inner.config.rollgate {
                Program::Upload(_) => format!("{home}/.rollgate/rollgate"),
                Program::Inside(path) => path.clone(),
            };
            Ok(E2bSandbox::new(inner, ground, create, home, workdir, rollgate))
        }
        Err(error) => Err(given_up(&inner, &made.id, error).await),
    }
}

/// Removes what was made in vain. The error says what became of it.
async fn given_up(inner: &Inner, id: &str, error: BackendError) -> BackendError {
    inner.lives.release(id);
    match inner.control.kill(id).await {
        Ok(()) => BackendError::Unusable(format!("{error} (sandbox {id} was removed)")),
        // The next sweep finds it by its metadata.
        Err(second) => {
            BackendError::Unusable(format!("{error} (sandbox {id} is left to the sweep: {second})"))
        }
    }
}

fn body(inner: &Inner, spec: &Spec, create: &str) -> serde_json::Value {
    let metadata: HashMap<&str, String> = inner.owner.metadata(spec, create);
    json!({
        "templateID": spec.image.as_ref().unwrap_or(&inner.config.template),
        "timeout": inner.lives.time(spec.ttl).as_secs().max(1),
        "metadata": metadata,
        "secure": true,
        "autoPause": false,
    })
}

/// Asks until there is a sandbox; with it, whether some answer was unclear on the way.
async fn ask(inner: &Arc<Inner>, spec: &Spec, create: &str) -> Result<(Made, bool), BackendError> {
    let body = body(inner, spec, create);
    let (begun, mut pauses, mut unclear) = (Instant::now(), Pauses::new(), false);
    // Time that was spent waiting for room, which is no fault of this start.
    let mut queued = Duration::ZERO;
    loop {
        let waiting = Instant::now();
        inner.gate.open().await;
        queued += waiting.elapsed();
        let (why, wait) = match inner.control.create(&body, create).await {
            Tried::Made(made) => return Ok((*made, unclear)),
            Tried::Refused(why) => {
                return Err(BackendError::Unusable(format!("e2b: cannot create a sandbox: {why}")));
            }
            Tried::Full { wait, why } => {
                inner.gate.full(wait);
                if queued > inner.config.quota_wait {
                    let what = format!(
                        "e2b: no room for {queued:.0?}: {why} (raise the quota, or \
                                        lower the number of attempts at once)"
                    );
                    return Err(BackendError::Unusable(what));
                }
                continue;
            }
            Tried::Not(why) => (why, None),
            Tried::Unclear { wait, why } => {
                unclear = true;
                if let Some(made) = adopt(inner, create).await {
                    return Ok((made, true));
                }
                (why, wait)
            }
        };
        let spent = begun.elapsed().saturating_sub(queued);
        let wait = wait.unwrap_or_else(|| pauses.next());
        if spent + wait > inner.config.start {
            let what = format!("e2b: cannot create a sandbox within {spent:.0?}: {why}");
            return Err(BackendError::Unusable(what));
        }
        tracing::warn!(create, why, "a create is tried again");
        tokio::time::sleep(wait).await;
    }
}

/// The sandbox that an unclear create made after all.
async fn adopt(inner: &Inner, create: &str) -> Option<Made> {
    for look in 0..limits::RECONCILE_LOOKS {
        if look > 0 {
            tokio::time::sleep(limits::RECONCILE_PAUSE).await;
        }
        let Ok(found) = inner.control.list(owner::CREATE, create).await else { continue };
        for listed in found {
            // The list does not tell the token.
            if let Ok(Some(made)) = inner.control.info(&listed.id).await {
                tracing::warn!(create, sandbox = made.id, "a sandbox without an answer is adopted");
                return Some(made);
            }
        }
    }
    None
}

/// Removes other sandboxes of the same create. One that shows up later is left to the sweep.
async fn kill_doubles(inner: &Inner, create: &str, keep: &str) {
    match inner.control.list(owner::CREATE, create).await {
        Ok(found) => {
            for double in found.iter().filter(|listed| listed.id != keep) {
                tracing::warn!(create, sandbox = double.id, "a double is removed");
                if let Err(error) = inner.control.kill(&double.id).await {
                    tracing::warn!(%error, "a double is left to the sweep");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "doubles are left to the sweep"),
    }
}

fn ground(
    inner: &Arc<Inner>,
    made: &Made,
    life: Arc<super::lives::Life>,
) -> Result<Ground, BackendError> {
    let config = &inner.config;
    let (domain, token) = (made.domain.as_deref(), made.token.as_deref());
    let address = Address::sandbox(config, &made.id, domain, token)?;
    let daemon = Daemon::new(
        inner.transport.clone(),
        address,
        config.user.clone(),
        made.daemon.as_deref(),
        config.request,
    );
    Ok(Ground {
        daemon: Arc::new(daemon),
        life,
        shell: config.shell.clone().into(),
        keepalive: config.keepalive,
        reattach: config.reattach,
        kill_grace: config.kill_grace,
    })
}

/// Waits until it runs commands, checks that it is what was asked for, and brings in the mounts.
async fn ready(
    inner: &Inner,
    spec: &Spec,
    made: &Made,
    ground: &Ground,
    archive: Option<Archive>,
) -> Result<(String, String), BackendError> {
    let config = &inner.config;
    let work = config.workdir.clone().unwrap_or_default();
    let work = work.as_str();
    let asked = ground.persist("start using it", config.start, || async move {
        let (code, said) = ground.script(script::SETUP, &[work], None, config.request).await?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        match code {
            // It says where HOME is: who hears nothing lost something.
            0 if said.is_empty() => Err(Trouble::passing("its answer to the setup is lost")),
            0 => Ok(said),
            _ => Err(Trouble::refused("unfit", said)),
        }
    });
    let said = asked.await?;
    let home = config.home.clone().unwrap_or(said);
    if !home.starts_with('/') {
        return Err(ground.error("start using it", &format!("its HOME is `{home}`")));
    }
    let workdir = config.workdir.clone().unwrap_or_else(|| format!("{home}/work"));
    enough(inner, spec, made).await?;
    if let Some(archive) = archive {
        archive.unpack(ground, &home, config.mount_user.as_deref()).await?;
    }
    Ok((home, workdir))
}

/// A template has its size: one that is too small for the spec is refused.
async fn enough(inner: &Inner, spec: &Spec, made: &Made) -> Result<(), BackendError> {
    let wanted = spec.resources;
    if wanted.cpus.is_none() && wanted.memory_mib.is_none() && wanted.disk_mib.is_none() {
        return Ok(());
    }
    let Some(has) = inner.control.info(&made.id).await? else {
        return Err(BackendError::Unusable(format!("e2b sandbox {} is gone already", made.id)));
    };
    let lack = |what: &str, wanted: f64, has: f64| {
        (has < wanted).then(|| format!("{has} {what} instead of {wanted}"))
    };
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let lacks = [
        wanted.cpus.zip(has.cpus).and_then(|(w, h)| lack("cores", w, h)),
        number(wanted.memory_mib)
            .zip(number(has.memory_mib))
            .and_then(|(w, h)| lack("MiB of memory", w, h)),
        number(wanted.disk_mib)
            .zip(number(has.disk_mib))
            .and_then(|(w, h)| lack("MiB of disk", w, h)),
    ];
    let lacks: Vec<String> = lacks.into_iter().flatten().collect();
    if lacks.is_empty() {
        return Ok(());
    }
    let template = spec.image.as_ref().unwrap_or(&inner.config.template);
    Err(BackendError::Unusable(format!(
        "e2b: template `{template}` has {}; the size is set when a template is built",
        lacks.join(", ")
    )))
}
