//! A sandbox lives as long as it is held, and not much longer.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rollgate_backends::Backend as _;
use rollgate_tests::e2b::{Does, Fault, On, Options};

use crate::bed::{Bed, command, fails, spec};

fn refusal(status: u16) -> Does {
    Does::Answer { status, message: "not now".to_owned(), headers: Vec::new() }
}

#[test]
fn row16_the_service_always_has_a_time_for_it() {
    let bed = Bed::with(Options::default(), |config| config.ttl = Duration::from_secs(600));
    let mut spec = spec();
    let long = bed.try_create(&spec).unwrap();
    let left = bed.server.left(long.id()).unwrap();
    assert!(left <= Duration::from_secs(600) && left > Duration::from_secs(580), "{left:?}");
    spec.ttl = Duration::from_secs(60);
    let short = bed.try_create(&spec).unwrap();
    let left = bed.server.left(short.id()).unwrap();
    assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(40), "{left:?}");
}

#[test]
fn row11_row12_row13_its_time_is_renewed_whatever_happens() {
    let bed = Bed::with(Options::default(), |config| config.ttl = Duration::from_secs(3));
    // More failures in a row than a helper that gives up would bear.
    bed.server.plant(Fault { on: On::Timeout, times: 4, skip: 1, does: refusal(500) });
    bed.server.plant(Fault { on: On::Timeout, times: 1, skip: 1, does: Does::Lost });
    let sandbox = bed.create();
    let exit = bed.sh(&*sandbox, "sleep 8; echo lived");
    assert_eq!(exit.stdout, b"lived\n", "its time alone was 3 s");
    assert!(bed.server.seen(On::Timeout) >= 7, "{}", bed.server.seen(On::Timeout));
    assert_eq!(bed.server.seen(On::Resume), 0, "row 12: connecting is no probe");
}

#[test]
fn row14_one_timer_renews_all_and_forgets_none() {
    let bed = Bed::with(Options::default(), |config| config.ttl = Duration::from_secs(3));
    let sandboxes: Vec<_> = (0..20).map(|_| bed.create()).collect();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(bed.server.sandboxes().len(), 20);
    for sandbox in &sandboxes {
        bed.run(sandbox.destroy()).unwrap();
    }
    let renewals = bed.server.seen(On::Timeout);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(bed.server.seen(On::Timeout), renewals, "who is gone is not renewed");
}

#[test]
fn row11_a_life_that_is_over_is_said() {
    let bed = Bed::new();
    let mut spec = spec();
    spec.ttl = Duration::from_secs(2);
    let sandbox = bed.try_create(&spec).unwrap();
    let begun = Instant::now();
    let late = bed.exec(&*sandbox, command(&["sleep", "60"]));
    fails(late, &[sandbox.id(), "not found", "ttl"]);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    bed.run(sandbox.destroy()).unwrap();
}

#[test]
fn row38_a_dead_sandbox_stays_dead() {
    let bed = Bed::new();
    let sandbox = bed.create();
    bed.server.kill(sandbox.id());
    let creates = bed.server.seen(On::Create);
    fails(bed.exec(&*sandbox, command(&["true"])), &[sandbox.id(), "not found", "gone"]);
    fails(bed.run(sandbox.put("/home/user/a", b"")), &[sandbox.id(), "not found"]);
    fails(bed.run(sandbox.get("/home/user/a", 1)), &[sandbox.id(), "not found"]);
    assert_eq!(bed.server.seen(On::Create), creates, "no blank one takes its place");
}

#[test]
fn row38_renewal_notices_a_death() {
    let bed = Bed::with(Options::default(), |config| {
        config.ttl = Duration::from_secs(3);
        config.keepalive = Duration::from_secs(600);
    });
    let sandbox: std::sync::Arc<dyn rollgate_backends::Sandbox> = bed.create().into();
    // The stream tells nothing.
    bed.server.once(On::Start, Does::Silent { after: 1 });
    let begun = Instant::now();
    let running = {
        let sandbox = sandbox.clone();
        bed.spawn(async move { sandbox.exec(command(&["sleep", "60"])).await })
    };
    std::thread::sleep(Duration::from_millis(300));
    bed.server.kill(sandbox.id());
    fails(bed.run(running).unwrap(), &["does not know it any more"]);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[test]
fn a_server_that_cannot_set_times_is_not_a_death() {
    let bed = Bed::with(Options::default(), |config| config.ttl = Duration::from_secs(3));
    let sandbox = bed.create();
    // Each renewal: no such call, then the other call.
    for skip in 0..3 {
        bed.server.plant(Fault { on: On::Timeout, times: 1, skip, does: refusal(404) });
    }
    assert_eq!(bed.sh(&*sandbox, "sleep 5; echo lived").stdout, b"lived\n");
    assert!(bed.server.seen(On::Timeout) >= 6, "{}", bed.server.seen(On::Timeout));
}

#[test]
fn row18_row50_destroy_bears_everything() {
    let bed = Bed::new();
    let sandbox = bed.create();
    bed.server.plant(Fault { on: On::Kill, times: 2, skip: 0, does: refusal(503) });
    bed.server.plant(Fault { on: On::Kill, times: 1, skip: 0, does: refusal(500) });
    bed.server.plant(Fault { on: On::Kill, times: 1, skip: 0, does: Does::Lost });
    bed.run(sandbox.destroy()).unwrap();
    assert!(bed.server.sandboxes().is_empty());
    // Not there is as good as removed, how often ever.
    bed.run(sandbox.destroy()).unwrap();
    bed.server.once(On::Kill, refusal(404));
    bed.run(sandbox.destroy()).unwrap();
    fails(bed.exec(&*sandbox, command(&["true"])), &["it is destroyed"]);
}

#[test]
fn destroy_ends_what_runs() {
    let bed = Bed::new();
    let sandbox: std::sync::Arc<dyn rollgate_backends::Sandbox> = bed.create().into();
    let ended = bed.run(async {
        let running = {
            let sandbox = sandbox.clone();
            tokio::spawn(async move { sandbox.exec(command(&["sleep", "60"])).await })
        };
        tokio::time::sleep(Duration::from_millis(500)).await;
        sandbox.destroy().await.unwrap();
        tokio::time::timeout(Duration::from_secs(2), running).await
    });
    fails(ended.expect("at once").unwrap(), &["it is destroyed"]);
    bed.until("nothing runs on", || bed.server.processes().is_empty());
}

#[test]
fn row15_a_sandbox_that_was_dropped_is_swept() {
    let bed = Bed::new();
    let kept = bed.create();
    drop(bed.create());
    assert_eq!(bed.server.sandboxes().len(), 2);
    assert_eq!(bed.run(bed.backend.sweep()).unwrap(), 1);
    assert_eq!(bed.server.sandboxes(), [kept.id()]);
}

fn made_by(bed: &Bed, metadata: &[(String, String)]) {
    let metadata: std::collections::HashMap<_, _> = metadata.iter().cloned().collect();
    let body = serde_json::json!({"templateID": "base", "timeout": 600, "metadata": metadata});
    let url = format!("{}/sandboxes", bed.server.url);
    ureq::post(url).header("x-api-key", "key").send_json(body).unwrap();
}

/// A lease of another process of this machine.
fn lease(metadata: &[(String, String)], pid: u32) -> Vec<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks = rest.split(' ').nth(19).unwrap();
    let mut metadata = metadata.to_vec();
    for (name, value) in &mut metadata {
        if name == "rollgate_lease" {
            *value = format!("{pid}-{ticks}");
        }
    }
    metadata
}

#[test]
fn row15_row17_a_sweep_removes_what_the_dead_left_and_nothing_else() {
    let bed = Bed::with(Options { page: 7, ..Options::default() }, |_| ());
    let ours = bed.create();
    let metadata = bed.server.metadata(ours.id()).unwrap();
    let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let leased = lease(&metadata, other.id());
    for _ in 0..25 {
        made_by(&bed, &leased);
    }
    // Of another machine, and nobody's.
    let scope = |(name, value): &(String, String)| {
        let value = if name == "rollgate_scope" { "elsewhere" } else { value };
        (name.clone(), value.to_owned())
    };
    made_by(&bed, &leased.iter().map(scope).collect::<Vec<_>>());
    made_by(&bed, &[]);
    assert_eq!(bed.run(bed.backend.sweep()).unwrap(), 0, "its owner lives");
    assert_eq!(bed.server.sandboxes().len(), 28);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(bed.run(bed.backend.sweep()).unwrap(), 25, "over several pages");
    assert_eq!(bed.server.sandboxes().len(), 3);
    assert_eq!(bed.sh(&*ours, "echo untouched").stdout, b"untouched\n");
}

#[test]
fn row48_commands_land_in_their_own_sandbox() {
    let bed = Bed::new();
    let sandboxes: Vec<std::sync::Arc<dyn rollgate_backends::Sandbox>> =
        (0..12).map(|_| bed.create().into()).collect();
    let running: Vec<_> = sandboxes
        .iter()
        .map(|sandbox| {
            let sandbox = sandbox.clone();
            bed.spawn(async move {
                let id = sandbox.id().to_owned();
                let path = format!("{}/id", sandbox.home());
                sandbox.put(&path, id.as_bytes()).await.unwrap();
                let exit = sandbox.exec(command(&["cat", &path])).await.unwrap();
                assert_eq!(String::from_utf8_lossy(&exit.stdout), id);
                let exit = sandbox.exec(command(&["printenv", "E2B_SANDBOX_ID"])).await.unwrap();
                assert_eq!(String::from_utf8_lossy(&exit.stdout).trim(), id);
            })
        })
        .collect();
    for running in running {
        bed.run(running).unwrap();
    }
}
