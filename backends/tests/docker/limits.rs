//! What a sandbox may use, and what becomes of one that takes more.

use std::time::Duration;

use rollgate_backends::{Backend, Docker, Exec, Resources, Sandbox, Spec};

use super::engine::{config, engine, err, out, sh};

async fn limited(owner: &str, resources: Resources) -> Option<Box<dyn Sandbox>> {
    let docker = Docker::new(config(&engine()?.socket()));
    let spec = Spec { resources, ..Spec::new("a", owner) };
    Some(docker.create(&spec).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_rights_are_those_that_were_asked_for() {
    let resources =
        Resources { cpus: Some(0.5), memory_mib: Some(96), pids: Some(50), ..Resources::default() };
    let Some(sandbox) = limited("limits", resources).await else { return };
    let none = None::<bollard::query_parameters::InspectContainerOptions>;
    let client = engine().unwrap().client();
    let host = client.inspect_container(sandbox.id(), none).await.unwrap().host_config.unwrap();
    assert_eq!(host.memory, Some(96 << 20));
    assert_eq!(host.memory_swap, Some(96 << 20));
    assert_eq!(host.nano_cpus, Some(500_000_000));
    assert_eq!(host.pids_limit, Some(50));
    assert_eq!(host.init, Some(true));
    let ports = host.port_bindings.unwrap_or_default();
    assert!(ports.is_empty(), "row 20: ports of this machine clash");
    // The kernel's word on it, for the limits that it shows in both kinds of control groups.
    let script = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes;
        cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max; true";
    let exit = sandbox.exec(sh(script)).await.unwrap();
    assert_eq!(out(&exit), format!("{}\n50", 96 << 20));
    let script = "grep -E 'NoNewPrivs|CapBnd' /proc/self/status | tr -d '\\t'; id -u;
        chown 7 /srv && stat -c %u /srv; mknod /srv/dev b 7 0; cat /proc/1/comm";
    let exit = sandbox.exec(sh(script)).await.unwrap();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE
    let expected = "CapBnd:00000000000004fb\nNoNewPrivs:1\n0\n7\ndocker-init";
    assert_eq!(out(&exit), expected, "{exit:?}");
    assert!(err(&exit).contains("not permitted"), "{exit:?}");
    sandbox.destroy().await.unwrap();
}

/// Refused rather than ignored: a sandbox that is believed to be limited and is not fills a disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_limit_that_the_engine_cannot_keep_is_refused() {
    let Some(engine) = engine() else { return };
    let docker = Docker::new(config(&engine.socket()));
    let resources = Resources { disk_mib: Some(64), ..Resources::default() };
    let spec = Spec { resources, ..Spec::new("a", "disk") };
    match docker.create(&spec).await {
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("disk_mib") && error.contains("pquota"), "{error}");
        }
        // An engine on xfs with quotas: then it must hold.
        Ok(sandbox) => {
            let fill = sandbox.exec(sh("dd if=/dev/zero of=/srv/f bs=1M count=80")).await.unwrap();
            assert_ne!(fill.code, Some(0), "{fill:?}");
            sandbox.destroy().await.unwrap();
        }
    }
    assert_eq!(engine.containers_of("disk").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ran_out_of_memory_is_told_so() {
    let resources = Resources { memory_mib: Some(64), ..Resources::default() };
    let Some(sandbox) = limited("memory", resources).await else { return };
    // `tail` keeps what it is given.
    let exec = sh("tail -c 200000000 /dev/zero");
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!(exit.code, Some(137), "{exit:?}");
    let told = "out of memory: the kernel killed 1 process(es) of this sandbox (limit 64 MiB)";
    assert!(err(&exit).contains(told), "{exit:?}");
    let quiet = sandbox.exec(sh("echo fine; echo >&2")).await.unwrap();
    assert_eq!((out(&quiet).as_str(), err(&quiet).as_str()), ("fine", ""));
    // One that hides it: the shell goes on after its child was killed.
    let exit = sandbox.exec(sh("tail -c 200000000 /dev/zero; echo went on")).await.unwrap();
    assert_eq!((exit.code, out(&exit).as_str()), (Some(0), "went on"));
    assert!(err(&exit).contains("out of memory"), "{exit:?}");
    sandbox.destroy().await.unwrap();
}

/// Row 29: a sandbox that forks without end hits its own limit, and can be used again.
#[tokio::test(flavor = "multi_thread")]
async fn row_29_a_fork_bomb_ends_with_its_command() {
    let resources = Resources { pids: Some(64), memory_mib: Some(256), ..Resources::default() };
    let Some(sandbox) = limited("bomb", resources).await else { return };
    let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1; echo over";
    let exit = sandbox.exec(sh(bomb)).await.unwrap();
    assert!(exit.took < Duration::from_secs(40), "{exit:?}");
    let exit = sandbox.exec(sh("ps | grep -c '[b]omb'; echo usable")).await.unwrap();
    assert_eq!(out(&exit), "0\nusable", "{exit:?}");
    sandbox.destroy().await.unwrap();
}

/// Row 29, at its worst: at the limit nothing can be started that would kill.
#[tokio::test(flavor = "multi_thread")]
async fn row_29_a_late_command_at_the_limit_of_processes_takes_its_sandbox_along() {
    let resources = Resources { pids: Some(40), ..Resources::default() };
    let Some(sandbox) = limited("full", resources).await else { return };
    let full = "while sleep 1000 & do :; done; sleep 1000";
    let hold = format!("trap '' TERM; ({full}) 2>/dev/null; while :; do :; done");
    let exec = Exec { timeout: Duration::from_secs(4), ..sh(&hold) };
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!((exit.code, exit.timed_out), (None, true));
    // Either the killer found room, or the container had to go; never does the tree stay.
    match sandbox.exec(sh("ps | grep -c '[s]leep 1000'")).await {
        Ok(exit) => assert_eq!(out(&exit), "0"),
        Err(error) => assert!(error.to_string().contains("was killed whole"), "{error}"),
    }
    sandbox.destroy().await.unwrap();
    assert_eq!(engine().unwrap().containers_of("full").await, [""; 0]);
}
