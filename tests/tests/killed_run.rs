//! `kill -9` of `rollgate run` in the middle of its attempts. After a restart no sandbox is left,
//! what was finished is not made again, and the rest is completed.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rollgate_tests::process::Process;
use rollgate_tests::{program, samples, sandboxes};
use serde_json::Value;

const ATTEMPTS: usize = 50;
/// Finished attempts at which the process is killed, one round each.
const KILLED_AT: [usize; 2] = [8, 27];

fn run(directory: &Path) -> Command {
    let mut command = program::command(directory);
    command.env("TMPDIR", directory.join("tmp"));
    let attempts = ATTEMPTS.to_string();
    command.args(["run", "--demo", "--n", &attempts, "--concurrency", "10", "--pool", "2"]);
    command.args(["--agent-arg=--think-ms", "--agent-arg=200", "-o", "out", "--json"]);
    command
}

/// Whole lines of `attempts.jsonl`.
fn lines(directory: &Path) -> Vec<String> {
    let text = std::fs::read(directory.join("out/attempts.jsonl")).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    String::from_utf8_lossy(&text[..whole]).lines().map(str::to_owned).collect()
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let tmp = at.join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let mut before = Vec::new();
    for (round, finished) in KILLED_AT.into_iter().enumerate() {
        let mut process = Process::start("run", run(at), at);
        process.wait_for(Duration::from_secs(300), |_| {
            let busy = !sandboxes::processes(&tmp).is_empty();
            (lines(at).len() >= finished && busy).then_some(())
        });
        process.kill();
        let after = lines(at);
        assert!(after.len() < ATTEMPTS, "it was killed too late: {}", after.len());
        assert!(after.starts_with(&before), "what was there is there");
        assert!(!sandboxes::left(&tmp).is_empty(), "a killed process cleans nothing up");
        println!(
            "figures: killed with {} of {ATTEMPTS} attempts finished, {} sandboxes and {} \
             processes left",
            after.len(),
            sandboxes::left(&tmp).len(),
            sandboxes::processes(&tmp).len()
        );
        if round == 0 {
            // As if it had died in the middle of a write.
            append(&at.join("out/attempts.jsonl"), br#"{"attempt_id":"squares.4"#);
            append(&at.join("out/samples-00001.jsonl"), br#"{"format":1,"sample_"#);
        }
        before = after;
    }

    let ended = run(at).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let left = (sandboxes::left(&tmp).len(), sandboxes::processes(&tmp).len());
    assert_eq!(left, (0, 0), "sandboxes and processes");
    let summary: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(summary["settled_earlier"], before.len());
    assert_eq!(summary["outcomes"]["done"], ATTEMPTS - before.len(), "{summary:#}");
    assert_eq!(summary["groups_complete"], 1);

    let all = lines(at);
    assert!(all.starts_with(&before), "finished attempts are not made again");
    let field = |line: &String, name: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line[name].as_str().unwrap().to_owned()
    };
    let ids: BTreeSet<String> = all.iter().map(|line| field(line, "attempt_id")).collect();
    assert_eq!((all.len(), ids.len()), (ATTEMPTS, ATTEMPTS), "each once");
    assert!(all.iter().all(|line| field(line, "outcome") == "done"));
    let mut attempts: Vec<u32> =
        samples::read(&at.join("out")).iter().map(|sample| sample.attempt).collect();
    attempts.sort_unstable();
    assert!(attempts.into_iter().eq(0..ATTEMPTS as u32), "each attempt's sample once");
    let (code, report) = program::verify(at, &["out"]);
    assert_eq!(code, Some(0), "{report:#}");
}
