//! `rollgate verify` exits 1 on each planted corruption, and says what it is.
//!
//! Each is planted twice where it can be: as damage (the digest of the columns is left as it was),
//! and as a mistake of whoever wrote the sample (the digest fits what is written).

use std::path::Path;
use std::sync::LazyLock;

use rollgate_pipeline::sample::Sample;
use rollgate_tests::{program, samples};

/// Samples of a good run, made once.
static GOOD: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let ran = program::run(directory.path(), &["run", "--demo", "--n", "2", "-o", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let samples = samples::read(&directory.path().join("out"));
    assert_eq!(samples.len(), 2);
    samples
});

/// Verifies this text as a sample file: exit code and the codes of what was found.
fn verify(text: &str) -> (Option<i32>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("samples-00001.jsonl");
    std::fs::write(&file, text).unwrap();
    let model = program::demo_model();
    let arguments = [path(&file), "--model", path(&model)];
    let (code, report) = program::verify(directory.path(), &arguments);
    let findings = report["findings"].as_array().unwrap().iter();
    (code, findings.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect())
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Damages the second sample; verify must exit 1 with this code as damage, and with `resealed` where
/// the digest was made anew (`None`: only the digest, or an engine, can see it).
fn check(damage: impl Fn(&mut Sample), damaged: &str, resealed: Option<&str>) {
    let mut planted = GOOD.clone();
    damage(&mut planted[1]);
    let (code, found) = verify(&samples::to_jsonl(&planted));
    assert_eq!(code, Some(1), "{found:?}");
    assert!(found.iter().any(|code| code == damaged), "{damaged} is not among {found:?}");
    let Some(expected) = resealed else { return };
    planted[1] = samples::resealed(planted[1].clone());
    let (code, found) = verify(&samples::to_jsonl(&planted));
    assert_eq!(code, Some(1), "resealed: {found:?}");
    assert!(found.iter().any(|code| code == expected), "resealed: {expected} is not in {found:?}");
    assert!(found.iter().all(|code| code != "digest"), "{found:?}");
}

/// Damages the JSON text of the second sample.
fn check_text(damage: impl Fn(&str) -> String) {
    let lines = samples::to_jsonl(&GOOD);
    let (first, second) = lines.trim_end().split_once('\n').unwrap();
    let planted = damage(second);
    assert_ne!(planted, second, "nothing was planted");
    let (code, found) = verify(&format!("{first}\n{planted}\n"));
    assert_eq!(code, Some(1), "{found:?}");
    assert!(found.iter().any(|code| code == "unreadable"), "{found:?}");
}

fn first_sampled(sample: &Sample) -> usize {
    sample.turns[0].start as usize
}

#[test]
fn untouched_samples_pass() {
    let (code, found) = verify(&samples::to_jsonl(&GOOD));
    assert_eq!((code, found), (Some(0), Vec::new()));
}

#[test]
fn an_id() {
    check(|sample| sample.tokens[3] ^= 1, "digest", None);
    check(|sample| sample.tokens[3] = 3_000_000, "digest", Some("vocabulary"));
}

#[test]
fn a_shifted_mask() {
    check(|sample| sample.loss_mask.rotate_right(1), "mask", Some("mask"));
    check(|sample| sample.loss_mask.rotate_left(1), "mask", Some("mask"));
}

#[test]
fn a_log_probability_that_is_no_number() {
    check_text(|line| {
        let at = line.find("\"logprobs\":[").unwrap() + "\"logprobs\":[".len();
        let end = at + line[at..].find(',').unwrap();
        format!("{}NaN{}", &line[..at], &line[end..])
    });
    // JSON cannot say it, engines write this for it.
    let unknown = |sample: &mut Sample| {
        let at = first_sampled(sample);
        sample.logprobs[at] = -9999.0;
    };
    check(unknown, "logprob", Some("logprob"));
    // What overflows a float reads as infinite.
    check_text_or_logprob();
}

/// `-1e999` is refused by the reader or found by the check; both are right.
fn check_text_or_logprob() {
    let lines = samples::to_jsonl(&GOOD);
    let at = lines.find("\"logprobs\":[").unwrap() + "\"logprobs\":[".len();
    let end = at + lines[at..].find(',').unwrap();
    let (code, found) = verify(&format!("{}-1e999{}", &lines[..at], &lines[end..]));
    assert_eq!(code, Some(1), "{found:?}");
}

#[test]
fn a_missing_log_probability() {
    check(
        |sample| {
            let at = first_sampled(sample);
            sample.logprobs.remove(at);
        },
        "length",
        Some("length"),
    );
    check_text(|line| {
        let at = line.find("\"logprobs\":[").unwrap() + "\"logprobs\":[".len();
        let end = at + line[at..].find(',').unwrap();
        format!("{}null{}", &line[..at], &line[end..])
    });
}

#[test]
fn a_length() {
    check(|sample| sample.tokens.push(1), "length", Some("length"));
    check(|sample| sample.loss_mask.truncate(9), "length", Some("length"));
    check(|sample| sample.prompt_len += 1, "prompt_len", Some("prompt_len"));
}

#[test]
fn an_overlapping_span() {
    check(|sample| sample.turns[1].start = sample.turns[0].end - 1, "span", Some("span"));
    check(|sample| sample.turns[1].end = sample.tokens.len() as u32 + 1, "span", Some("span"));
}

#[test]
fn a_version() {
    check(|sample| sample.weight_versions[0].0 = 1, "version", Some("version"));
    check(|sample| sample.weight_versions.clear(), "version", Some("version"));
    check(|sample| sample.weight_versions[0].1.push('x'), "digest", None);
}

#[test]
fn a_digest() {
    check(|sample| sample.provenance.columns_blake3 = "0".repeat(64), "digest", None);
    check(|sample| sample.provenance.columns_blake3.clear(), "digest", None);
}

#[test]
fn a_sample_that_is_there_twice() {
    let twice = [GOOD.clone(), vec![GOOD[0].clone()]].concat();
    let (code, found) = verify(&samples::to_jsonl(&twice));
    assert_eq!(code, Some(1), "{found:?}");
    assert!(found.iter().any(|code| code == "duplicate"), "{found:?}");
}
