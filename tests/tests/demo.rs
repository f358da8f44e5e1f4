//! The main job without any set-up: `rollgate run --demo`, then `rollgate verify`.

use rollgate_tests::{program, samples};

#[test]
fn the_demonstration_gives_eight_clean_samples() {
    let directory = tempfile::tempdir().unwrap();
    let ran = program::run(directory.path(), &["run", "--demo", "--n", "8", "-o", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");

    let (code, report) = program::verify(directory.path(), &["out"]);
    assert_eq!(code, Some(0), "{report:#}");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_eq!(row["health"], "clean", "{row}");
        assert_eq!(row["outcome"], "done", "{row}");
        assert!(row["reward"].is_number(), "{row}");
        assert!(row["turns"].as_u64() >= Some(3), "{row}");
        assert!(row["tool_calls"].as_u64() >= Some(1), "{row}");
        assert!(
            row["non_canonical"].as_u64() >= Some(1),
            "a split the tokenizer would not make: {row}"
        );
    }
    let samples = samples::read(&directory.path().join("out"));
    let mut attempts: Vec<_> = samples.iter().map(|sample| sample.attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 1, 2, 3, 4, 5, 6, 7], "one group, each attempt once");

    // Asked again, it finds that nothing is left to do.
    let again = program::run(directory.path(), &["run", "--demo", "--n", "8", "-o", "out"]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    assert_eq!(samples::read(&directory.path().join("out")).len(), 8);
}

#[test]
fn verify_prints_a_table_for_people() {
    let directory = tempfile::tempdir().unwrap();
    let ran = program::run(directory.path(), &["run", "--demo", "--n", "1", "-o", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let ended = program::run(directory.path(), &["verify", "out"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stdout.contains("1 samples, 1 clean, 0 faults"), "{}", ended.stdout);
}
