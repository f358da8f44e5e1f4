//! Commands live on when their streams do not.

use std::time::{Duration, Instant};

use rollgate_backends::Exec;
use rollgate_tests::e2b::{Does, Fault, On, Options};

use crate::bed::{Bed, command, fails, shell};

/// Runs once and says so, before and after whatever happens to its stream.
const SCRIPT: &str = "echo x >>runs; echo begun; sleep 1.2; echo done; wc -l <runs; exit 4";

/// After this fault of a start, and these of attaching, all is as if nothing had happened.
fn survives(start: Does, attach: Vec<Does>, options: Options) {
    let bed = Bed::with(options, |_| ());
    let sandbox = bed.create();
    bed.server.once(On::Start, start.clone());
    for does in &attach {
        bed.server.once(On::Attach, does.clone());
    }
    let what = format!("{start:?}, then {attach:?}");
    let exit = bed.exec(&*sandbox, shell(SCRIPT));
    let exit = exit.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "begun\ndone\n1\n", "{what}");
    assert_eq!((exit.code, exit.timed_out, exit.cut_bytes), (Some(4), false, 0), "{what}");
    bed.until("nothing runs on", || bed.server.processes().is_empty());
}

fn end_error(code: &str) -> Does {
    Does::EndError { after: 1, code: code.to_owned(), message: "restarting".to_owned() }
}

fn answer(status: u16) -> Does {
    Does::Answer { status, message: "bad moment".to_owned(), headers: Vec::new() }
}

#[test]
fn row10_a_stream_that_is_cut_loses_nothing() {
    survives(Does::Cut { after: 1 }, vec![], Options::default());
    survives(Does::Cut { after: 0 }, vec![], Options::default());
    survives(Does::Cut { after: 1 }, vec![Does::Cut { after: 1 }; 3], Options::default());
    survives(Does::NoEnd { after: 1 }, vec![Does::NoEnd { after: 1 }], Options::default());
    survives(end_error("unavailable"), vec![end_error("internal")], Options::default());
}

#[test]
fn row10_also_when_the_end_is_cut_off() {
    // Start, report, end: whatever of it does not arrive.
    for after in 2..=3 {
        survives(Does::Cut { after }, vec![], Options::default());
        survives(Does::NoEnd { after }, vec![], Options::default());
    }
}

#[test]
fn row10_and_when_the_daemon_forgets_processes_that_ended() {
    let options = || Options { keep_ended: Duration::ZERO, ..Options::default() };
    survives(Does::Cut { after: 1 }, vec![answer(503); 4], options());
    survives(Does::Cut { after: 3 }, vec![], options());
}

#[test]
fn row24_row25_a_start_without_an_answer_runs_once() {
    survives(Does::Lost, vec![], Options::default());
    survives(Does::Never, vec![], Options::default());
    survives(Does::DoneBut { status: 503 }, vec![], Options::default());
    // It never came through: it is started again.
    survives(answer(503), vec![], Options::default());
    survives(answer(429), vec![answer(502)], Options::default());
    survives(Does::EdgeWithoutPort, vec![Does::EdgeWithoutPort], Options::default());
}

#[test]
fn row09_silence_is_noticed_by_missing_keepalives() {
    survives(Does::Silent { after: 1 }, vec![], Options::default());
    survives(Does::Silent { after: 1 }, vec![Does::Silent { after: 1 }], Options::default());
}

#[test]
fn row09_a_command_does_not_outlive_its_sandbox() {
    let bed = Bed::new();
    for after_ms in [0, 700] {
        let sandbox = bed.create();
        bed.server.once(On::Start, Does::Die { after_ms });
        let begun = Instant::now();
        let died = bed.exec(&*sandbox, command(&["sleep", "60"]));
        fails(died, &[sandbox.id(), "run a command", "gone"]);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[test]
fn row09_a_sandbox_out_of_reach_is_given_up_in_time() {
    let bed = Bed::new();
    let sandbox = bed.create();
    bed.server.once(On::Start, Does::Cut { after: 1 });
    bed.server.plant(Fault { on: On::Attach, times: 1_000, skip: 0, does: answer(502) });
    let begun = Instant::now();
    let lost = bed.exec(&*sandbox, command(&["sleep", "60"]));
    fails(lost, &[sandbox.id(), "502", "no word"]);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_quiet_command_is_kept_by_keepalives() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let before = bed.server.seen(On::Attach);
    let exit = bed.sh(&*sandbox, "sleep 4; echo still here");
    assert_eq!(exit.stdout, b"still here\n");
    assert_eq!(bed.server.seen(On::Attach), before, "one stream was enough");
}

#[test]
fn an_error_of_the_daemon_is_final() {
    let bed = Bed::new();
    let sandbox = bed.create();
    bed.server.once(On::Start, end_error("unauthenticated"));
    fails(bed.exec(&*sandbox, shell("sleep 60")), &["unauthenticated", "restarting"]);
    let does = Does::EndError { after: 0, code: "invalid_argument".into(), message: "no".into() };
    bed.server.once(On::Start, does);
    fails(bed.exec(&*sandbox, shell("true")), &["invalid_argument: no"]);
}

#[test]
fn row09_bodies_that_drip_do_not_hold_us() {
    let bed = Bed::with(Options::default(), |config| {
        config.request = Duration::from_secs(1);
        config.reattach = Duration::from_secs(2);
    });
    let sandbox = bed.create();
    let path = format!("{}/a", sandbox.home());
    bed.run(sandbox.put(&path, &[b'x'; 300])).unwrap();
    let drip = Does::Drip { every_ms: 50 };
    bed.server.plant(Fault { on: On::Read, times: 100, skip: 0, does: drip.clone() });
    let begun = Instant::now();
    fails(bed.run(sandbox.get(&path, 1_000)), &[&path, "too slowly"]);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    // The same of the control plane: what dripped was made, and is adopted.
    bed.server.once(On::Create, drip);
    let other = bed.create();
    assert_eq!(bed.server.sandboxes().len(), 2);
    assert_eq!(bed.sh(&*other, "echo here").stdout, b"here\n");
}

#[test]
fn row21_row23_a_sandbox_whose_command_cannot_be_killed_is_destroyed() {
    let bed = Bed::with(Options::default(), |config| config.kill_grace = Duration::from_secs(1));
    let sandbox = bed.create();
    // The killing itself never gets through.
    bed.server.plant(Fault { on: On::Start, times: 3, skip: 1, does: answer(503) });
    let exec = Exec { timeout: Duration::from_secs(1), ..shell("sleep 61") };
    fails(bed.exec(&*sandbox, exec), &["was killed", "it was destroyed"]);
    assert!(bed.server.sandboxes().is_empty());
    bed.until("nothing runs on", || bed.server.processes().is_empty());
}
