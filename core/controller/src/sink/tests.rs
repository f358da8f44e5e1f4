//! Round trips, rolling, and what a crash leaves behind.

use proptest::prelude::*;
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_pipeline::sample::{Health, Link, LinkKind, LinkTarget, Provenance, SampledSpan};
use rollgate_pipeline::turn::Sampling;
use serde_json::json;

use super::*;
use crate::outcome::Outcome;

mod parquet_files;

fn sample(n: u128, tokens: Vec<u32>, logprobs: Vec<f32>) -> Sample {
    let session_id = SessionId::new("n1", SessionHash(n));
    let span = SampledSpan {
        turn: rollgate_pipeline::id::TurnIndex(0),
        start: 0,
        end: 1,
        scene: "main".into(),
        finish_reason: "stop".into(),
        ill_formed: false,
        sampling: Sampling { temperature: Some(0.7), ..Sampling::default() },
        rule: None,
        resumed_at: vec![0],
    };
    let to = LinkTarget { session_id: session_id.clone(), segment: 4, turn: None };
    Sample {
        format: 1,
        sample_id: format!("{session_id}-0"),
        task_id: "täsk\n".into(),
        group_id: "g".into(),
        attempt: 1,
        session_id,
        segment: 0,
        segments: 1,
        siblings: 2,
        prompt_len: 0,
        loss_mask: vec![1; tokens.len()],
        tokens,
        logprobs,
        turns: vec![span],
        weight_versions: vec![(0, "v1".into())],
        links: vec![Link { kind: LinkKind::Spawned, to }],
        messages: vec![json!({"role": "user", "content": "a\u{2028}b"})],
        tools: Vec::new(),
        scene: "main".into(),
        reward: Some(0.5),
        reward_parts: [("tests".to_owned(), 3.0)].into(),
        outcome: "done".into(),
        health: Health::from_reasons(vec!["odd".into()]),
        counts: Default::default(),
        provenance: Provenance::default(),
    }
}

fn line(attempt_id: &str, outcome: Outcome) -> AttemptLine {
    AttemptLine {
        attempt_id: attempt_id.into(),
        task_id: "t".into(),
        group_id: "t".into(),
        attempt: 0,
        outcome,
        reason: None,
        reward: None,
        reward_parts: Default::default(),
        agent: String::new(),
        session_id: None,
        turns: 0,
        scenes: Default::default(),
        sampled_tokens: 0,
        earlier: Vec::new(),
        started_at_ms: 0,
        took_ms: Default::default(),
        samples: Vec::new(),
        unhealthy: Default::default(),
        samples_end: None,
    }
}

fn run(format: Format) -> RunSettings {
    RunSettings { format, settings: json!({"n": 4}), notes: json!({"concurrency": 2}) }
}

fn read(dir: &Path) -> Vec<Sample> {
    read_samples(dir).unwrap().map(|item| item.unwrap().1).collect()
}

const FORMATS: [Format; 3] = [Format::Jsonl, Format::Safetensors, Format::Parquet];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn samples_come_back_bit_exact(
        tokens in prop::collection::vec(any::<u32>(), 0..50),
        bits in prop::collection::vec(any::<u32>(), 0..50),
    ) {
        let logprobs: Vec<f32> =
            bits.into_iter().map(f32::from_bits).filter(|p| p.is_finite()).collect();
        let sample = sample(7, tokens, logprobs);
        let back = from_safetensors(&to_safetensors(sample.clone()).unwrap()).unwrap();
        prop_assert_eq!(&back, &sample);
        let line = to_jsonl(std::slice::from_ref(&sample)).unwrap();
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let back: Sample = serde_json::from_slice(&line).unwrap();
        prop_assert_eq!(&back.logprobs, &sample.logprobs);
        prop_assert_eq!(&back, &sample);
        let empty = Sample { reward: None, ..self::sample(8, vec![], vec![]) };
        let all = vec![empty, sample.clone(), sample];
        let back = from_parquet(to_parquet(all.clone()).unwrap()).unwrap();
        let bits = |sample: &Sample| -> Vec<u32> {
            sample.logprobs.iter().map(|logprob| logprob.to_bits()).collect()
        };
        prop_assert_eq!(all.iter().map(bits).collect::<Vec<_>>(), back.iter().map(bits).collect::<Vec<_>>());
        prop_assert_eq!(&back, &all);
    }
}

#[test]
fn accepted_attempts_are_skipped_later_and_their_samples_are_there_once() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = Sink::open(dir.path(), &run(format)).unwrap();
        let samples = vec![sample(1, vec![1], vec![-0.5]), sample(2, vec![2], vec![-1.5])];
        sink.accept(&mut line("t.0", Outcome::Done), samples.clone()).unwrap();
        sink.accept(&mut line("t.1", Outcome::InfraFailed), Vec::new()).unwrap();
        sink.accept(&mut line("t.2", Outcome::VerifierFailed), Vec::new()).unwrap();
        drop(sink);
        let sink = Sink::open(dir.path(), &run(format)).unwrap();
        let settled = ["t.0", "t.1", "t.2", "t.3"].map(|id| sink.is_settled(id));
        assert_eq!(settled, [true, false, true, false]);
        assert_eq!(read(dir.path()), samples);
    }
}

#[test]
fn what_a_crash_left_unaccepted_is_removed() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = Sink::open_rolling(dir.path(), &run(format), 1).unwrap();
        let first = sample(1, vec![1], vec![-0.5]);
        sink.accept(&mut line("t.0", Outcome::Done), vec![first.clone()]).unwrap();
        // Samples of a second attempt, whose line was torn by the crash.
        let lost = vec![sample(2, vec![2], vec![-1.5])];
        match &mut sink.writer {
            Writer::Rows(rows) => drop(rows.write(lost).unwrap()),
            Writer::Tensors(tensors) => tensors.write(lost).unwrap(),
            Writer::Tables(tables) => drop(tables.write(lost).unwrap()),
        }
        drop(sink);
        let attempts = dir.path().join("attempts.jsonl");
        let mut text = std::fs::read(&attempts).unwrap();
        text.extend_from_slice(br#"{"attempt_id": "t.1", "#);
        std::fs::write(&attempts, text).unwrap();

        assert_eq!(read(dir.path()).len(), 2);
        let mut sink = Sink::open_rolling(dir.path(), &run(format), 1).unwrap();
        assert!(!sink.is_settled("t.1"));
        assert_eq!(read(dir.path()), std::slice::from_ref(&first));
        let again = sample(3, vec![3], vec![-2.5]);
        sink.accept(&mut line("t.1", Outcome::Done), vec![again.clone()]).unwrap();
        sink.finish().unwrap();
        drop(sink);
        assert!(Sink::open(dir.path(), &run(format)).unwrap().is_settled("t.1"));
        assert_eq!(read(dir.path()), [first, again]);
    }
}

#[test]
fn files_are_rolled_between_attempts() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = Sink::open_rolling(dir.path(), &run(Format::Jsonl), 1).unwrap();
    for n in 0..3 {
        let two = (0..2).map(|half| sample(2 * n + half, vec![1], vec![0.0])).collect();
        sink.accept(&mut line(&format!("t.{n}"), Outcome::Done), two).unwrap();
    }
    let lines =
        |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap().lines().count();
    assert_eq!(
        ["samples-00001.jsonl", "samples-00002.jsonl", "samples-00003.jsonl"].map(lines),
        [2; 3]
    );
    assert_eq!(read(dir.path()).len(), 6);
}

#[test]
fn a_directory_of_another_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |run: &RunSettings| Sink::open(dir.path(), run).map_err(|e| e.to_string());
    let held = open(&run(Format::Jsonl)).unwrap();
    assert!(open(&run(Format::Jsonl)).unwrap_err().contains("in use by another run"));
    drop(held);
    let notes = RunSettings { notes: json!(null), ..run(Format::Jsonl) };
    open(&notes).expect("notes may change");
    let other = RunSettings { settings: json!({"n": 8, "agent": "x"}), ..run(Format::Safetensors) };
    assert!(open(&other).unwrap_err().contains("(format, n, agent)"));
    std::fs::remove_file(dir.path().join("run.json")).unwrap();
    assert!(open(&run(Format::Jsonl)).unwrap_err().contains("no run.json explains"));
}

#[test]
fn bad_samples_are_told_by_place_and_do_not_end_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(read_samples(dir.path()), Err(ReadError::Nothing(_))));
    let good = String::from_utf8(to_jsonl(&[sample(1, vec![1], vec![0.0])]).unwrap()).unwrap();
    let path = dir.path().join("samples-00001.jsonl");
    let text = format!("{{\"format\": 2}}\n{good}\n{{}}\n{good}{}", &good[..40]);
    std::fs::write(&path, text).unwrap();
    std::fs::write(dir.path().join("x.safetensors"), b"nonsense").unwrap();
    let found: Vec<String> = read_samples(dir.path())
        .unwrap()
        .map(|item| match item {
            Ok((at, _)) => format!("ok {}", at.line.unwrap()),
            Err(error) => error.to_string().replace(&*dir.path().to_string_lossy(), "D"),
        })
        .collect();
    let starts = [
        "D/samples-00001.jsonl:1: sample format 2 is not known",
        "ok 2",
        "D/samples-00001.jsonl:4: not a sample: missing field",
        "ok 5",
        "D/samples-00001.jsonl:6: an unfinished line",
        "D/x.safetensors: ",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found:?} does not start with {start:?}");
    }
}

#[test]
fn ids_become_plain_and_unique_file_names() {
    assert_eq!(file_name("task-1.0"), "task-1.0");
    let odd = ["a/b.0", "a_b.0", "a\\b.0", "..", ".x", "ä"].map(file_name);
    assert!(odd.iter().all(|name| !name.contains(['/', '\\']) && !name.starts_with('.')));
    assert_eq!(odd.iter().collect::<BTreeSet<_>>().len(), odd.len());
}
