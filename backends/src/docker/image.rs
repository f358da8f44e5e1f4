//! The image of a sandbox: one that the engine has, one that is pulled, or one built from a folder.
//!
//! Many attempts ask for the same image at the same time; one of them prepares it, and all share
//! how that ended.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder};
use futures_util::TryStreamExt;

use super::engine::{Engine, Fault};
use super::limits;
use crate::{BackendError, Spec};

/// How the last preparation of an image ended, if it failed; held while it is prepared.
pub(super) type Flight = Arc<tokio::sync::Mutex<Option<Failure>>>;

/// A preparation that failed.
#[derive(Debug)]
pub(super) struct Failure {
    at: Instant,
    text: String,
}

/// An image that the engine has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Image {
    /// What containers are made from.
    pub reference: String,
    /// User of its commands as the image says it; empty: root.
    pub user: String,
    /// Work directory as the image says it; may be empty.
    pub workdir: String,
}

/// The image that a spec asks for, prepared where it must be.
pub(super) async fn ready(engine: &Engine, spec: &Spec) -> Result<Image, BackendError> {
    let Some(name) = spec.image.as_deref().or(engine.config.image.as_deref()) else {
        return Err(BackendError::Unusable(
            "no image to make a sandbox from: name one in the task, or `image` of the docker \
             backend; a path that begins with `/` or `./` is a folder with a Dockerfile"
                .to_owned(),
        ));
    };
    if name.starts_with('/') || name.starts_with("./") {
        return built(engine, Path::new(name)).await;
    }
    if let Some(image) = look(engine, name).await? {
        return Ok(image);
    }
    if !engine.config.pull {
        return Err(BackendError::Unusable(format!(
            "the Docker engine at {} has no image `{name}`: load, build or pull it there, or let \
             it be pulled with `pull = true` of the docker backend",
            engine.host()
        )));
    }
    once(engine, name, name, || pull(engine, name)).await
}

/// The image if the engine has it.
async fn look(engine: &Engine, name: &str) -> Result<Option<Image>, BackendError> {
    match engine.call(limits::ASK, |docker| docker.inspect_image(name)).await {
        Ok(found) => {
            let config = found.config.unwrap_or_default();
            Ok(Some(Image {
                reference: name.to_owned(),
                user: config.user.unwrap_or_default(),
                workdir: config.working_dir.unwrap_or_default(),
            }))
        }
        Err(fault) if fault.status() == Some(404) => Ok(None),
        Err(fault) => Err(engine.error(&format!("look for image `{name}`"), fault)),
    }
}

/// Prepares an image unless somebody else does, or just did.
async fn once<F: Future<Output = Result<(), BackendError>>>(
    engine: &Engine,
    key: &str,
    name: &str,
    prepare: impl FnOnce() -> F,
) -> Result<Image, BackendError> {
    let asked = Instant::now();
    let flight = {
        let mut flights = engine.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if flights.len() >= limits::FLIGHTS {
            flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        }
        flights.entry(key.to_owned()).or_default().clone()
    };
    let mut last = flight.lock().await;
    if let Some(failure) = last.as_ref().filter(|failure| failure.at >= asked) {
        return Err(BackendError::Unusable(failure.text.clone()));
    }
    if let Some(image) = look(engine, name).await? {
        return Ok(image);
    }
    let prepared = match tokio::time::timeout(limits::IMAGE, prepare()).await {
        Ok(prepared) => prepared,
        Err(_) => Err(BackendError::Unusable(format!(
            "image `{name}` was not ready after {} minutes",
            limits::IMAGE.as_secs() / 60
        ))),
    };
    if let Err(error) = prepared {
        *last = Some(Failure { at: Instant::now(), text: error.to_string() });
        return Err(error);
    }
    look(engine, name).await?.ok_or_else(|| {
        BackendError::Unusable(format!("image `{name}` was made, but the engine has it not"))
    })
}

async fn pull(engine: &Engine, name: &str) -> Result<(), BackendError> {
    let what = format!("pull image `{name}`");
    // Without a tag an engine pulls all of them.
    let tagged = name.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
    let from = if tagged { name.to_owned() } else { format!("{name}:latest") };
    let options = CreateImageOptionsBuilder::default().from_image(&from).build();
    let pulled = engine.call(limits::IMAGE, |docker| {
        docker.create_image(Some(options), None, None).try_for_each(|_| async { Ok(()) })
    });
    pulled.await.map_err(|fault| engine.error(&what, fault))
}

/// The image of a folder with a Dockerfile, named by what is in the folder.
async fn built(engine: &Engine, folder: &Path) -> Result<Image, BackendError> {
    let owned = folder.to_owned();
    let packed = tokio::task::spawn_blocking(move || pack(&owned)).await;
    let (context, digest) = packed.map_err(|error| {
        BackendError::Unusable(format!("cannot read {}: {error}", folder.display()))
    })??;
    let name = format!("rollgate-built:{}", digest.get(..32).unwrap_or(&digest));
    if let Some(image) = look(engine, &name).await? {
        return Ok(image);
    }
    once(engine, &name, &name, || build(engine, folder, &name, context)).await
}

async fn build(
    engine: &Engine,
    folder: &Path,
    name: &str,
    context: Vec<u8>,
) -> Result<(), BackendError> {
    let options = BuildImageOptionsBuilder::default()
        .t(name)
        .rm(true)
        .forcerm(true)
        .networkmode(&engine.config.network)
        .build();
    let mut log = VecDeque::new();
    let built = engine.call(limits::IMAGE, |docker| {
        let body = bollard::body_full(context.into());
        let lines = docker.build_image(options, None, Some(body));
        lines.try_for_each(|info| {
            let line = info.error_detail.and_then(|error| error.message).or(info.stream);
            for line in line.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty()) {
                if log.len() == limits::LOG_LINES {
                    log.pop_front();
                }
                log.push_back(line.to_owned());
            }
            std::future::ready(Ok(()))
        })
    });
    let built = built.await;
    let fault = match built {
        Ok(()) => return Ok(()),
        Err(Fault::Refused { message, .. }) => message,
        Err(fault) => return Err(engine.error(&format!("build {}", folder.display()), fault)),
    };
    let log: Vec<String> = log.into();
    Err(BackendError::Unusable(format!(
        "the image of {} cannot be built: {fault}\nlast lines of its build log:\n{}",
        folder.display(),
        log.join("\n")
    )))
}

/// The folder as an archive that depends on its contents alone, and the digest of that.
fn pack(folder: &Path) -> Result<(Vec<u8>, String), BackendError> {
    let wrong = |why: String| {
        BackendError::Unusable(format!("cannot build an image of {}: {why}", folder.display()))
    };
    if !folder.join("Dockerfile").is_file() {
        return Err(wrong("there is no file `Dockerfile` in it".to_owned()));
    }
    let io = |error: std::io::Error| wrong(error.to_string());
    let mut paths = Vec::new();
    walk(folder, &mut paths).map_err(io)?;
    paths.sort();
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    let mut bytes = 0;
    for path in paths {
        bytes += path.symlink_metadata().map_err(io)?.len();
        if bytes > limits::CONTEXT_BYTES {
            let most = limits::CONTEXT_BYTES >> 20;
            return Err(wrong(format!("it holds more than {most} MiB")));
        }
        let inside = path.strip_prefix(folder).map_err(|error| wrong(error.to_string()))?;
        archive.append_path_with_name(&path, inside).map_err(io)?;
    }
    let archive = archive.into_inner().map_err(io)?;
    let digest = blake3::hash(&archive).to_hex().to_string();
    Ok((archive, digest))
}

fn walk(dir: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        paths.push(entry.path());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), paths)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_has_the_digest_of_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        assert!(pack(dir.path()).unwrap_err().to_string().contains("no file `Dockerfile`"));
        let make = |root: &Path, text: &str| {
            fs::create_dir_all(root.join("b/c")).unwrap();
            fs::write(root.join("Dockerfile"), "FROM x").unwrap();
            fs::write(root.join("b/c/f"), text).unwrap();
            pack(root).unwrap().1
        };
        let one = make(&dir.path().join("one"), "1");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(make(&dir.path().join("two"), "1"), one);
        assert_ne!(make(&dir.path().join("two"), "2"), one);
    }
}
