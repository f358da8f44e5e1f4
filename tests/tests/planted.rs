//! Do the tests find bugs? A dozen are planted in the pipeline, one at a time, and the pipeline's own
//! tests must fail for each of them. Those at work in the shards are for the simulation to find.

use std::path::PathBuf;
use std::process::Command;

use rollgate_pipeline::planted::Bug;
use rollgate_tests::program;
use serde_json::Value;

/// The rooms whose tests must see a bug; the first that does ends the search.
fn rooms(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::DroppedSeparator | Bug::CloseForgotten => &["render::"],
        Bug::SplitOffByOne
        | Bug::DigestWithoutLength
        | Bug::DigestWithoutRole
        | Bug::SampledMerged
        | Bug::PartialJoinsUndelivered
        | Bug::OverlayInChain => &["trajectory::", "rules::"],
        Bug::MaskShifted | Bug::TrainedTwice => &["sample::"],
        Bug::SpansNotMoved | Bug::SiblingIsRetry => &["exchange::"],
        // Those of `Bug::AT_WORK` are the simulation's to find.
        _ => &[],
    }
}

/// The pipeline's unit tests, built with the bugs in them, all switched off.
fn suite() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(program::workspace());
    cargo.args(["test", "-p", "rollgate-pipeline", "--lib", "--features", "planted", "--no-run"]);
    let built = cargo.arg("--message-format=json-render-diagnostics").output().unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the suite does not build:\n{stderr}");
    let lines = built.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| {
        let test =
            message["target"]["name"] == "rollgate_pipeline" && message["profile"]["test"] == true;
        test.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    programs.next_back().expect("cargo says where the suite lies")
}

/// Names of the tests of a room that fail with this bug, or without any.
fn failing(suite: &PathBuf, room: &str, bug: Option<Bug>) -> Vec<String> {
    // From elsewhere, so that property tests keep no seeds of failures that are meant.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(suite);
    command.current_dir(elsewhere.path()).arg(room).env_remove("ROLLGATE_PLANTED");
    // That a test fails is enough; nobody reads its smallest case.
    command.env("PROPTEST_MAX_SHRINK_ITERS", "0");
    if let Some(bug) = bug {
        command.env("ROLLGATE_PLANTED", format!("{bug:?}"));
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = text.lines().filter_map(|line| {
        line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned)
    });
    failed.collect()
}

#[test]
fn every_planted_bug_is_found() {
    let suite = suite();
    let mut unseen = Vec::new();
    for bug in Bug::ALL {
        let found = rooms(bug).iter().map(|room| failing(&suite, room, Some(bug)));
        let found = found.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        println!(
            "{:26} {} tests, {}",
            format!("{bug:?}"),
            found.len(),
            found.first().map_or("", String::as_str)
        );
        if found.is_empty() {
            unseen.push(bug);
        }
    }
    assert!(unseen.is_empty(), "no test sees {unseen:?}");
    for room in ["render::", "trajectory::", "rules::", "sample::", "exchange::"] {
        assert_eq!(failing(&suite, room, None), Vec::<String>::new(), "without a bug all is well");
    }
}
