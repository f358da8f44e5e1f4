//! Images: named, missing, pulled, built.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rollgate_backends::{Backend, Docker, DockerConfig, Spec};

use super::engine::{IMAGE, config, engine, out, sh};
use super::proxy::Proxy;

fn with_image(image: &str, owner: &str) -> Spec {
    Spec { image: Some(image.to_owned()), ..Spec::new("a", owner) }
}

/// Row 32: one that is missing is an error of its own, and nobody is asked for it unless told to.
#[tokio::test(flavor = "multi_thread")]
async fn row_32_a_missing_image_is_told_and_pulled_only_where_that_is_wanted() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    let spec = with_image("localhost:1/no/such-image:7", "missing");
    let error = docker.create(&spec).await.err().unwrap().to_string();
    assert!(error.contains("no image `localhost:1/no/such-image:7`"), "{error}");
    assert!(error.contains("pull = true"), "{error}");
    assert_eq!(proxy.asked("/images/create"), 0);

    // Nothing answers at that registry: the pull fails, once for all who ask at the same time.
    let pulling = Arc::new(Docker::new(DockerConfig { pull: true, ..config(&proxy.socket()) }));
    let tasks = (0..8).map(|_| {
        let (docker, spec) = (pulling.clone(), spec.clone());
        tokio::spawn(async move { docker.create(&spec).await.err().unwrap().to_string() })
    });
    for task in tasks.collect::<Vec<_>>() {
        let error = task.await.unwrap();
        assert!(error.contains("cannot pull image") && error.contains("refused"), "{error}");
    }
    assert_eq!(proxy.asked("/images/create"), 1);

    let none = Docker::new(DockerConfig { image: None, ..config(&engine.socket()) });
    let error = none.create(&Spec::new("a", "missing")).await.err().unwrap().to_string();
    assert!(error.contains("no image to make a sandbox from"), "{error}");
    assert_eq!(engine.containers_of("missing").await, [""; 0]);
}

fn folder(dockerfile: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("Dockerfile"), dockerfile).unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/f"), "from the folder").unwrap();
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Row 32: an image is built once for all that need it, and again only when its folder changes.
#[tokio::test(flavor = "multi_thread")]
async fn row_32_a_folder_is_built_once_for_all_who_ask() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Arc::new(Docker::new(config(&proxy.socket())));
    let dockerfile = format!(
        "FROM {IMAGE}\nCOPY data /srv/data\nRUN echo ran > /srv/ran\nENV MADE=yes\n\
         WORKDIR /srv/data\nUSER agent\n"
    );
    let dir = folder(&dockerfile);
    let spec = with_image(text(dir.path()), "built");
    let tasks = (0..6).map(|_| {
        let (docker, spec) = (docker.clone(), spec.clone());
        tokio::spawn(async move {
            let sandbox = docker.create(&spec).await.unwrap();
            let exit = sandbox.exec(sh("cat f ../ran; echo $MADE $(id -un) $PWD")).await.unwrap();
            assert_eq!(out(&exit), "from the folderran\nyes agent /srv/data");
            assert_eq!(sandbox.workdir(), "/srv/data");
            sandbox.destroy().await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(proxy.asked("/build"), 1);
    // Another process, or this one after a restart, finds it by its contents.
    let again = Docker::new(config(&proxy.socket()));
    again.create(&spec).await.unwrap().destroy().await.unwrap();
    assert_eq!(proxy.asked("/build"), 1);
    fs::write(dir.path().join("data/f"), "changed").unwrap();
    let changed = again.create(&spec).await.unwrap();
    assert_eq!(out(&changed.exec(sh("cat f")).await.unwrap()), "changed");
    changed.destroy().await.unwrap();
    assert_eq!(proxy.asked("/build"), 2);
    assert_eq!(engine.containers_of("built").await, [""; 0]);
}

/// Row 33: an image that takes long is not a sandbox that does not start.
#[tokio::test(flavor = "multi_thread")]
async fn row_33_a_long_build_is_not_counted_as_a_start() {
    let Some(engine) = engine() else { return };
    let create_timeout = Duration::from_secs(12);
    let docker = Docker::new(DockerConfig { create_timeout, ..config(&engine.socket()) });
    let dir = folder(&format!("FROM {IMAGE}\nRUN sleep 13; echo slept > /srv/slept\n"));
    let began = Instant::now();
    let sandbox = docker.create(&with_image(text(dir.path()), "slow-build")).await.unwrap();
    assert!(began.elapsed() > create_timeout);
    assert_eq!(out(&sandbox.exec(sh("cat /srv/slept")).await.unwrap()), "slept");
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_shows_the_end_of_its_log() {
    let Some(engine) = engine() else { return };
    let docker = Docker::new(config(&engine.socket()));
    let dockerfile = format!(
        "FROM {IMAGE}\nRUN i=0; while [ $i -lt 99 ]; do i=$((i+1)); echo line $i.; done; exit 3\n"
    );
    let dir = folder(&dockerfile);
    let error = docker.create(&with_image(text(dir.path()), "unbuilt")).await.err().unwrap();
    let error = error.to_string();
    assert!(error.contains("line 99.") && !error.contains("line 50."), "{error}");
    assert!(error.contains(text(dir.path())) && error.contains("code: 3"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = docker.create(&with_image(text(empty.path()), "unbuilt")).await.err().unwrap();
    assert!(error.to_string().contains("no file `Dockerfile`"), "{error}");
    let dir = folder("FROM no-such-base:1\n");
    let error = docker.create(&with_image(text(dir.path()), "unbuilt")).await.err().unwrap();
    assert!(error.to_string().contains("no-such-base"), "{error}");
}

/// Row 30: the volumes that an image asks for go with their sandbox, or they fill the disk.
#[tokio::test(flavor = "multi_thread")]
async fn row_30_volumes_of_an_image_go_with_the_sandbox() {
    let Some(engine) = engine() else { return };
    let docker = Docker::new(config(&engine.socket()));
    let dir = folder(&format!("FROM {IMAGE}\nVOLUME /srv/volume\n"));
    let sandbox = docker.create(&with_image(text(dir.path()), "volumes")).await.unwrap();
    let client = engine.client();
    let count = || async {
        let none = None::<bollard::query_parameters::ListVolumesOptions>;
        client.list_volumes(none).await.unwrap().volumes.unwrap_or_default().len()
    };
    assert_eq!(count().await, 1);
    sandbox.destroy().await.unwrap();
    assert_eq!(count().await, 0);
}

/// An image without a shell cannot run commands, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_a_shell_or_sleep_is_told() {
    let Some(engine) = engine() else { return };
    let docker = Docker::new(config(&engine.socket()));
    let dir = folder(&format!("FROM {IMAGE}\nRUN rm /bin/sh\n"));
    let sandbox = docker.create(&with_image(text(dir.path()), "bare")).await.unwrap();
    let error = sandbox.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("/bin/sh"), "{error}");
    assert!(error.contains("rollgate-built:"), "{error}");
    sandbox.destroy().await.unwrap();
    let dir = folder(&format!("FROM {IMAGE}\nRUN rm /bin/sleep\n"));
    let sandbox = docker.create(&with_image(text(dir.path()), "bare")).await.unwrap();
    let error = sandbox.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("an image needs `sleep`"), "{error}");
    sandbox.destroy().await.unwrap();
    assert_eq!(engine.containers_of("bare").await, [""; 0]);
}
