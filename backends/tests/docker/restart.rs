//! An engine that is killed and comes back.

use std::time::Duration;

use rollgate_backends::{Backend, Docker, Spec};

use super::engine::{config, engine, eventually, out, sh, start};

/// Row 54: containers may be dead after a restart of the engine; what is theirs is told and cleared.
/// Row 9: a command that runs at that moment ends with an error, at once.
#[tokio::test(flavor = "multi_thread")]
async fn row_54_a_killed_engine_is_told_and_used_again_when_it_is_back() {
    if engine().is_none() {
        return;
    }
    let own = tokio::task::spawn_blocking(|| start("rge-")).await.unwrap();
    let docker = Docker::new(config(&own.socket()));
    let sandbox = docker.create(&Spec::new("a", "restart")).await.unwrap();
    let idle = docker.create(&Spec::new("a", "restart")).await.unwrap();
    let command = sandbox.exec(sh("echo begun; sleep 1000"));
    let crashing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        own.crash();
        std::time::Instant::now()
    };
    let (exit, crashed) = tokio::join!(command, crashing);
    let error = exit.unwrap_err().to_string();
    assert!(error.contains("`sh`"), "{error}");
    let clear = ["no Docker engine answers", "did not answer", "was cut off"];
    assert!(clear.iter().any(|part| error.contains(part)), "{error}");
    assert!(crashed.elapsed() < Duration::from_secs(30), "{:?}", crashed.elapsed());

    eventually("it is back", || async { docker.check().await.is_ok() }).await;
    let error = idle.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("died at") || error.contains("is gone"), "{error}");
    sandbox.destroy().await.unwrap();
    idle.destroy().await.unwrap();
    assert_eq!(own.containers_of("restart").await, [""; 0]);
    let fresh = docker.create(&Spec::new("a", "restart")).await.unwrap();
    assert_eq!(out(&fresh.exec(sh("echo well")).await.unwrap()), "well");
    fresh.destroy().await.unwrap();
}
