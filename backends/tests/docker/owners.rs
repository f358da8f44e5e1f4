//! Sandboxes whose owner is dead, or whose time is up.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rollgate_backends::{Backend, Docker, Spec};
use tokio::sync::Mutex;

use super::engine::{config, engine, err, eventually, out, sandbox, sh};

/// Sweeps count; those of different tests must not take from each other.
static SWEEPS: Mutex<()> = Mutex::const_new(());

const SOCKET: &str = "ROLLGATE_TEST_OWNER_SOCKET";

/// The process that is killed: makes sandboxes, says so, and waits.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other process of row_15_what_a_killed_owner_left_is_swept"]
async fn owner() {
    let socket = std::env::var(SOCKET).expect("started by another test only");
    let docker = Docker::new(config(socket.as_ref()));
    let mut sandboxes = Vec::new();
    for number in 0..3 {
        let spec = Spec::new(format!("a/{number}"), "killed-owner");
        sandboxes.push(docker.create(&spec).await.unwrap());
    }
    let running = sandboxes[0].exec(sh("sleep 1000"));
    println!("ready");
    running.await.unwrap();
}

/// Row 15: destructors do not run in a killed process. Row 17: and others' sandboxes stay.
#[tokio::test(flavor = "multi_thread")]
async fn row_15_what_a_killed_owner_left_is_swept() {
    let Some(engine) = engine() else { return };
    let _sweeps = SWEEPS.lock().await;
    let ours = sandbox("living-owner").await.unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docker::owners::owner", "--ignored", "--nocapture"])
        .env(SOCKET, engine.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.any(|line| line.unwrap().contains("ready"));
    assert!(ready, "the other process did not get that far");
    let docker = Docker::new(config(&engine.socket()));
    docker.sweep().await.unwrap();
    assert_eq!(engine.containers_of("killed-owner").await.len(), 3, "their owner lives");
    child.kill().unwrap();
    // Dead also before its parent takes note of it.
    eventually("it is a zombie", || async {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.contains(") Z ")
    })
    .await;
    assert_eq!(docker.sweep().await.unwrap(), 3);
    child.wait().unwrap();
    assert_eq!(engine.containers_of("killed-owner").await, [""; 0]);
    assert_eq!(out(&ours.exec(sh("echo kept")).await.unwrap()), "kept", "row 17");
    assert_eq!(docker.sweep().await.unwrap(), 0);
    ours.destroy().await.unwrap();
}

/// Row 16: a sandbox ends by itself; row 14: its time is in its labels, not in a timer of ours.
#[tokio::test(flavor = "multi_thread")]
async fn row_16_what_is_past_its_time_is_swept_whoever_owns_it() {
    let Some(engine) = engine() else { return };
    let _sweeps = SWEEPS.lock().await;
    let docker = Docker::new(config(&engine.socket()));
    let spec = Spec { ttl: Duration::from_secs(5), ..Spec::new("a", "expired") };
    let sandbox = docker.create(&spec).await.unwrap();
    assert_eq!(docker.sweep().await.unwrap(), 0);
    let life = sandbox.exec(sh("tr '\\0' ' ' < /proc/1/cmdline")).await.unwrap();
    assert!(out(&life).ends_with("sleep 65"), "{life:?}");
    assert_eq!(err(&life), "");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(docker.sweep().await.unwrap(), 1);
    assert_eq!(engine.containers_of("expired").await, [""; 0]);
    let error = sandbox.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("is gone") && error.contains("time was up"), "{error}");
    sandbox.destroy().await.unwrap();
}
