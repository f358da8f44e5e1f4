//! Samples of one session in every format, whole and damaged.

use std::path::Path;

use rollgate_controller::sink::{Format, to_jsonl, to_parquet, to_safetensors};
use rollgate_pipeline::id::{SessionHash, SessionId, TurnIndex};
use rollgate_pipeline::sample::{
    Health, Link, LinkKind, LinkTarget, Provenance, SampledSpan, columns_blake3,
};
use rollgate_pipeline::turn::Sampling;

use super::*;

/// A segment of these turns, two context ids and two sampled ids each; those in `trained` count.
fn segment(segment: u32, turns: &[u32], trained: &[u32]) -> Sample {
    let session_id = SessionId::new("n1", SessionHash(7));
    let mut sample = Sample {
        format: 1,
        sample_id: format!("{session_id}-{segment}"),
        task_id: "t".into(),
        group_id: "t".into(),
        attempt: 0,
        session_id,
        segment,
        segments: 3,
        siblings: 1,
        tokens: Vec::new(),
        prompt_len: 2,
        loss_mask: Vec::new(),
        logprobs: Vec::new(),
        turns: Vec::new(),
        weight_versions: vec![(0, "v1".into())],
        links: Vec::new(),
        messages: Vec::new(),
        tools: Vec::new(),
        scene: "main".into(),
        reward: None,
        reward_parts: Default::default(),
        outcome: "done".into(),
        health: Health::from_reasons(Vec::new()),
        counts: Default::default(),
        provenance: Provenance::default(),
    };
    for turn in turns {
        let start = sample.tokens.len() as u32 + 2;
        sample.tokens.extend([1, 2, 10 * turn, 10 * turn + 1]);
        let mask = u8::from(trained.contains(turn));
        sample.loss_mask.extend([0, 0, mask, mask]);
        sample.logprobs.extend([0.0, 0.0, -0.5, -0.25]);
        sample.turns.push(SampledSpan {
            turn: TurnIndex(*turn),
            start,
            end: start + 2,
            scene: "main".into(),
            finish_reason: "stop".into(),
            ill_formed: false,
            sampling: Sampling::default(),
            rule: None,
            resumed_at: Vec::new(),
        });
    }
    sample
}

/// Turns 0, 1 and 2 in a line; 3 goes on from 0; 4 begins anew, with a summary of that line.
fn session() -> Vec<Sample> {
    let mut samples =
        vec![segment(0, &[0, 1, 2], &[1, 2]), segment(1, &[0, 3], &[0, 3]), segment(2, &[4], &[4])];
    let to = LinkTarget {
        session_id: samples[0].session_id.clone(),
        segment: 1,
        turn: Some(TurnIndex(3)),
    };
    samples[2].links.push(Link { kind: LinkKind::Compacts, to });
    samples
}

fn write(dir: &Path, format: Format, samples: &[Sample]) {
    match format {
        Format::Jsonl => {
            std::fs::write(dir.join("samples-00001.jsonl"), to_jsonl(samples).unwrap()).unwrap();
        }
        Format::Parquet => {
            let bytes = to_parquet(samples.to_vec()).unwrap();
            std::fs::write(dir.join("samples-00001.parquet"), bytes).unwrap();
        }
        Format::Safetensors => {
            for (at, sample) in samples.iter().enumerate() {
                let bytes = to_safetensors(sample.clone()).unwrap();
                std::fs::write(dir.join(format!("{at}.safetensors")), bytes).unwrap();
            }
        }
    }
}

fn report(format: Format, samples: &[Sample]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), format, samples);
    let args = VerifyArgs {
        path: dir.path().to_owned(),
        engine: None,
        max_mean: 1.0,
        max_diff: 1.0,
        allow: Vec::new(),
        model: None,
        json: false,
    };
    examine(&args, None).unwrap().0
}

/// Damages the session, seals the columns anew, and expects these codes, in every format.
fn check_damage(damage: impl Fn(&mut Vec<Sample>), expected: &[&str]) {
    let mut samples = session();
    damage(&mut samples);
    for sample in &mut samples {
        sample.provenance.columns_blake3 = columns_blake3(sample);
    }
    for format in [Format::Jsonl, Format::Safetensors, Format::Parquet] {
        let report = report(format, &samples);
        let found: Vec<&str> = report.findings.iter().map(|found| found.code.as_str()).collect();
        assert_eq!(found, expected, "{format:?}: {report:#?}");
    }
}

#[test]
fn a_whole_session_passes_in_every_format() {
    check_damage(|_| {}, &[]);
}

#[test]
fn what_a_sample_alone_does_not_show_is_found() {
    check_damage(|samples| samples[0].loss_mask[2..4].fill(1), &["trained_twice", "trained_twice"]);
    check_damage(|samples| samples[1].loss_mask[2..4].fill(0), &["untrained"]);
    check_damage(|samples| samples[1].tokens[1] = 9, &["prefix"]);
    check_damage(|samples| samples[1].logprobs[3] = -0.375, &["prefix"]);
    check_damage(|samples| samples[2].links[0].to.segment = 3, &["link"]);
    check_damage(|samples| samples[2].links[0].to.turn = Some(TurnIndex(2)), &["link"]);
    // A turn that is there twice is found in many ways.
    let repeated = ["turn", "prefix", "trained_twice", "trained_twice", "link"];
    check_damage(|samples| samples[1].turns[1].turn = TurnIndex(0), &repeated);
    check_damage(|samples| drop(samples.remove(0)), &["segments"]);
    check_damage(|samples| samples[1].siblings = 3, &["siblings"]);
    check_damage(|samples| samples[2].loss_mask.rotate_right(1), &["mask", "mask", "untrained"]);
}

#[test]
fn the_report_tells_the_share_and_the_reasons() {
    let mut samples = session();
    for sample in &mut samples {
        sample.provenance.columns_blake3 = columns_blake3(sample);
    }
    let whole = report(Format::Jsonl, &samples);
    assert_eq!(whole.trained, Trained { tokens: 10, once: 10 });
    let text = whole.to_text();
    assert!(text.contains("10 of 10 tokens to be trained are trained once (100.00 %)"), "{text}");
    assert!(!text.contains("reason"), "{text}");

    samples[0].loss_mask[2..4].fill(1);
    samples[1].tokens[1] = 9;
    let damaged = report(Format::Jsonl, &samples);
    assert_eq!(damaged.trained, Trained { tokens: 10, once: 8 });
    let text = damaged.to_text();
    assert!(text.contains("8 of 10 tokens to be trained are trained once (80.00 %)"), "{text}");
    let row = |code: &str| {
        let row = text.lines().find(|line| line.starts_with(code)).unwrap_or_default();
        row.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([row("digest"), row("trained_twice"), row("prefix")], ["2 2", "2 2", "1 1"]);
    let json: Value = serde_json::from_str(&damaged.to_json()).unwrap();
    assert_eq!(json["reasons"]["digest"]["places"], 2);
    assert_eq!(json["trained"]["once"], 8);
}
