//! An engine whose answers are lost, late or refused: nothing leaks, and errors are clear.

use std::time::Duration;

use rollgate_backends::{Backend, Docker, DockerConfig, Exec, Spec};

use super::engine::{config, engine, eventually, out, running, sh};
use super::proxy::{Proxy, Trick};

/// Row 1: the engine made it, and its answer was lost. Row 3: and it is not made twice.
#[tokio::test(flavor = "multi_thread")]
async fn row_1_a_container_whose_making_was_not_answered_is_used() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    for trick in [
        Trick::LoseAnswer("/containers/create"),
        Trick::LoseAnswer("/start"),
        Trick::Delay("/containers/create", 1500),
    ] {
        let before = proxy.asked("/containers/create");
        proxy.play(trick.clone());
        let sandbox = docker.create(&Spec::new("a", "adopted")).await.unwrap();
        assert_eq!(out(&sandbox.exec(sh("echo well")).await.unwrap()), "well", "{trick:?}");
        assert_eq!(proxy.asked("/containers/create"), before + 1, "row 3: {trick:?}");
        assert_eq!(engine.containers_of("adopted").await, [format!("/{}", sandbox.id())]);
        sandbox.destroy().await.unwrap();
        assert_eq!(engine.containers_of("adopted").await, [""; 0], "{trick:?}");
    }
}

/// Row 1: one that shows up when nobody waits any more is found by the next sweep.
/// Row 53: the error of a start that failed says what became of its container.
#[tokio::test(flavor = "multi_thread")]
async fn row_53_a_container_that_nobody_got_goes_with_the_next_sweep() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    docker.check().await.unwrap();
    proxy.play(Trick::Delay("/containers/create", 13_000));
    let error = docker.create(&Spec::new("a", "too-late")).await.err().unwrap().to_string();
    assert!(error.contains("cannot make sandbox rollgate-"), "{error}");
    eventually("it shows up", || async { !engine.containers_of("too-late").await.is_empty() })
        .await;
    // Nobody but its maker knows that it is nobody's: its owner lives.
    let stranger = Docker::new(config(&engine.socket()));
    stranger.sweep().await.unwrap();
    assert_eq!(engine.containers_of("too-late").await.len(), 1);
    docker.sweep().await.unwrap();
    assert_eq!(engine.containers_of("too-late").await, [""; 0]);

    proxy.play(Trick::Refuse("/start", 400));
    let error = docker.create(&Spec::new("a", "too-late")).await.err().unwrap().to_string();
    assert!(error.contains("it is removed") && error.contains("made up by a test"), "{error}");
    assert_eq!(engine.containers_of("too-late").await, [""; 0]);
    proxy.play(Trick::Refuse("/start", 400));
    for _ in 0..4 {
        proxy.play(Trick::Refuse("DELETE ", 500));
    }
    let error = docker.create(&Spec::new("a", "too-late")).await.err().unwrap().to_string();
    assert!(error.contains("left to the next sweep"), "{error}");
    assert_eq!(engine.containers_of("too-late").await.len(), 1);
    docker.sweep().await.unwrap();
    assert_eq!(engine.containers_of("too-late").await, [""; 0]);
}

/// Row 5: one budget for all of the making, so that a permit for it is not held for ever.
#[tokio::test(flavor = "multi_thread")]
async fn row_5_a_making_that_hangs_ends_with_its_budget() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let budget = Duration::from_secs(8);
    let config = config(&proxy.socket());
    let docker = Docker::new(DockerConfig { create_timeout: budget, in_flight: 1, ..config });
    for hang in ["/start", "/archive", "/containers/create"] {
        proxy.play(Trick::Swallow(hang));
        let began = std::time::Instant::now();
        let error = docker.create(&Spec::new("a", "hanging")).await.err().unwrap().to_string();
        assert!(error.contains("did not answer"), "{hang}: {error}");
        assert!(began.elapsed() < budget * 4, "{hang}: {:?}", began.elapsed());
        assert_eq!(engine.containers_of("hanging").await, [""; 0], "{hang}");
    }
    let sandbox = docker.create(&Spec::new("a", "hanging")).await.unwrap();
    sandbox.destroy().await.unwrap();
}

/// Row 2: whoever waits for a sandbox may stop waiting at any time.
#[tokio::test(flavor = "multi_thread")]
async fn row_2_a_cancelled_making_leaves_nothing() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    let mut made = 0;
    for millis in [0, 20, 60, 150, 300, 500, 800] {
        let spec = Spec::new("a", "unwanted");
        let making = docker.create(&spec);
        match tokio::time::timeout(Duration::from_millis(millis), making).await {
            Ok(sandbox) => sandbox.unwrap().destroy().await.unwrap(),
            Err(_) => made += 1,
        }
    }
    assert!(made > 0, "nothing was cancelled");
    tokio::time::sleep(Duration::from_millis(500)).await;
    eventually("all are gone", || async { engine.containers_of("unwanted").await.is_empty() })
        .await;
    eventually("each that was made is removed", || async {
        proxy.asked("DELETE ") >= proxy.asked("/containers/create")
    })
    .await;
}

/// Row 18: a removal that fails is tried again, and what then stays is left to the sweep.
#[tokio::test(flavor = "multi_thread")]
async fn row_18_a_removal_that_fails_is_not_the_end_of_it() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    let sandbox = docker.create(&Spec::new("a", "sticky")).await.unwrap();
    proxy.play(Trick::Refuse("DELETE ", 500));
    proxy.play(Trick::LoseAnswer("DELETE "));
    sandbox.destroy().await.unwrap();
    assert_eq!(engine.containers_of("sticky").await, [""; 0]);

    let sandbox = docker.create(&Spec::new("a", "sticky")).await.unwrap();
    for _ in 0..4 {
        proxy.play(Trick::Refuse("DELETE ", 500));
    }
    let error = sandbox.destroy().await.unwrap_err().to_string();
    assert!(error.contains("cannot remove container"), "{error}");
    assert_eq!(docker.sweep().await.unwrap(), 1);
    assert_eq!(engine.containers_of("sticky").await, [""; 0]);
    sandbox.destroy().await.unwrap();
}

/// Which of the two it is, depends on whether a connection was open when the engine went.
fn says_gone(error: &str) -> bool {
    error.contains("no Docker engine answers") || error.contains("did not answer")
}

/// Row 9: a command is not waited for through an engine that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn row_9_an_engine_that_goes_away_in_a_command_is_told() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    let sandbox = docker.create(&Spec::new("a", "engine-gone")).await.unwrap();
    let command = sandbox.exec(sh("echo begun; sleep 1000"));
    let going = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.vanish();
    };
    let began = std::time::Instant::now();
    let (exit, ()) = tokio::join!(command, going);
    let error = exit.unwrap_err().to_string();
    assert!(error.contains("follow `sh`") && says_gone(&error), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    let error = sandbox.destroy().await.unwrap_err().to_string();
    assert!(says_gone(&error), "{error}");
    // For this process it is gone for good: what it holds there ends with its time.
    assert_eq!(engine.containers_of("engine-gone").await.len(), 1);
    let options = bollard::query_parameters::RemoveContainerOptionsBuilder::default();
    let options = options.force(true).build();
    engine.client().remove_container(sandbox.id(), Some(options)).await.unwrap();
}

/// Row 23: a start that is not answered is an error, and the command that may run is killed.
#[tokio::test(flavor = "multi_thread")]
async fn row_23_a_command_whose_start_was_not_answered_is_killed() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    let sandbox = docker.create(&Spec::new("a", "lost-start")).await.unwrap();
    proxy.play(Trick::Refuse("/exec/", 503));
    let error = sandbox.exec(sh("sleep 4261")).await.unwrap_err().to_string();
    assert!(error.contains("cannot start `sh`") && error.contains("503"), "{error}");
    proxy.play(Trick::LoseAnswer("/exec/"));
    let command = "setsid sleep 4262 & sleep 4263";
    let error = sandbox.exec(sh(command)).await.unwrap_err().to_string();
    assert!(error.contains("cannot start `sh`") && error.contains("did not answer"), "{error}");
    eventually("its killer came", || async { proxy.asked("/exec/") >= 3 }).await;
    eventually("it is dead", || async { running(sandbox.as_ref(), "sleep 426.").await == 0 }).await;
    sandbox.destroy().await.unwrap();
}

/// Row 24: a daemon that hangs with the killing costs its deadline, then the sandbox is given up.
#[tokio::test(flavor = "multi_thread")]
async fn row_24_a_killing_that_hangs_condemns_the_sandbox() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Docker::new(config(&proxy.socket()));
    let sandbox = docker.create(&Spec::new("a", "hangs")).await.unwrap();
    let command = Exec { timeout: Duration::from_secs(2), ..sh("sleep 1000") };
    let late = sandbox.exec(command);
    let hanging = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.play(Trick::Swallow("/exec/"));
    };
    let (exit, ()) = tokio::join!(late, hanging);
    assert!(exit.unwrap().timed_out);
    let error = sandbox.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("was killed whole") && error.contains("not enough"), "{error}");
    sandbox.destroy().await.unwrap();
    assert_eq!(engine.containers_of("hangs").await, [""; 0]);
}
