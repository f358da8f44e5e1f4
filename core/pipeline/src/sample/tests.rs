//! Segments of small sessions, and what `check` finds in damaged samples.

use super::*;
use crate::id::TurnIndex;
use crate::record::tests::{opened, turn_record};
use crate::record::{Record, Reward, Sealed, TurnRecord};
use crate::scene::{Scene, classify};
use crate::turn::{Finish, VersionSpan};

fn attempt() -> Attempt {
    Attempt {
        task_id: "t".into(),
        group_id: "g".into(),
        attempt: 0,
        siblings: 1,
        agent: "scripted".into(),
        outcome: None,
    }
}

fn turn(index: u32, parent: Option<u32>) -> TurnRecord {
    TurnRecord {
        parent: parent.map(TurnIndex),
        stretch: vec![1, 2],
        ids: vec![10 * index, 10 * index + 1, 10 * index + 2],
        logprobs: vec![-0.25; 3],
        ..turn_record(TurnIndex(index))
    }
}

fn samples(turns: Vec<TurnRecord>) -> Vec<Sample> {
    let mut records = vec![Record::Opened(Box::new(opened()))];
    records.extend(turns.into_iter().map(|turn| Record::Turn(Box::new(turn))));
    records.push(Record::Reward(Reward { reward: Some(1.0), parts: Default::default() }));
    records.push(Record::Sealed(Sealed { at_ms: 1 }));
    build(&records, &attempt())
}

#[test]
fn a_straight_session_is_one_sample() {
    let samples = samples(vec![turn(0, None), turn(1, Some(0))]);
    let [sample] = samples.as_slice() else { panic!("{samples:?}") };
    assert_eq!(sample.tokens, [1, 2, 0, 1, 2, 1, 2, 10, 11, 12]);
    assert_eq!(sample.loss_mask, [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]);
    assert_eq!((sample.prompt_len, sample.reward), (2, Some(1.0)));
    assert_eq!(sample.weight_versions, [(0, "v1".to_owned())]);
    assert_eq!((sample.outcome.as_str(), sample.scene.as_str()), ("done", "main"));
    assert_eq!(sample.health.reasons(), &[] as &[String]);
    assert_eq!(sample.messages.len(), 4);
}

#[test]
fn a_shared_span_is_trained_once_in_the_final_main_branch() {
    let samples = samples(vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0))]);
    let trained: Vec<Vec<u8>> = samples.iter().map(|sample| sample.loss_mask.clone()).collect();
    assert_eq!(trained, [[0, 0, 0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]]);
    assert_eq!(samples[0].counts["trained_elsewhere_tokens"], 3);
    assert!(samples.iter().all(|sample| sample.counts["same_prompt_turns"] == 1));
    assert!(
        samples.iter().all(|sample| sample.segments == 2 && sample.health.reasons().is_empty())
    );
}

#[test]
fn untrained_scenes_and_aborts_make_no_sample_of_their_own() {
    let title = TurnRecord { verdict: classify(Some(Scene::Title)), ..turn(1, None) };
    let aborted = TurnRecord { finish: Finish::Abort, ..turn(2, None) };
    let samples = samples(vec![turn(0, None), title, aborted]);
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].segments, 1);
}

#[test]
fn weight_versions_are_spans_over_the_sample() {
    let span = |start, version: &str| VersionSpan { start, version: version.into() };
    let straddling =
        TurnRecord { versions: vec![span(0, "v1"), span(2, "v2")], ..turn(1, Some(0)) };
    let silent = TurnRecord { versions: vec![], ..turn(2, Some(1)) };
    let samples = samples(vec![turn(0, None), straddling, silent]);
    let expected = [(0, "v1"), (9, "v2"), (12, "unreported")].map(|(at, v)| (at, v.to_owned()));
    assert_eq!(samples[0].weight_versions, expected);
}

#[test]
fn a_turn_whose_columns_differ_makes_an_unhealthy_sample() {
    let short = TurnRecord { logprobs: vec![-0.5], ..turn(0, None) };
    assert_eq!(samples(vec![short])[0].health.reasons(), ["length"]);
    let invalid = TurnRecord { logprobs: vec![-0.5, -9999.0, -1.0], ..turn(0, None) };
    assert_eq!(samples(vec![invalid])[0].health.reasons(), ["logprob"]);
}

#[test]
fn json_round_trip() {
    let sample = samples(vec![turn(0, None)]).remove(0);
    let text = serde_json::to_string(&sample).unwrap();
    assert!(text.contains(r#""health":"clean""#), "{text}");
    assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
}

/// Damages a good sample, with and without a digest that fits, and expects these codes.
fn check_damage(damage: impl Fn(&mut Sample), codes: &[&str]) {
    let mut sample = samples(vec![turn(0, None), turn(1, Some(0))]).remove(0);
    damage(&mut sample);
    let found: Vec<_> = check(&sample).iter().map(|violation| violation.code).collect();
    assert!(found.contains(&"digest"), "{found:?}");
    sample.provenance.columns_blake3 = columns_blake3(&sample);
    let found: Vec<_> = check(&sample).iter().map(|violation| violation.code).collect();
    assert_eq!(found, codes);
}

#[test]
fn damage_is_found() {
    check_damage(|sample| sample.tokens[3] = 9, &[]);
    check_damage(|sample| sample.loss_mask.rotate_right(1), &["mask", "mask", "mask"]);
    check_damage(|sample| sample.logprobs[3] = f32::NAN, &["logprob"]);
    check_damage(|sample| sample.logprobs[0] = -1.0, &["logprob"]);
    check_damage(|sample| sample.logprobs.truncate(3), &["length"]);
    check_damage(|sample| sample.tokens.truncate(3), &["length", "length"]);
    check_damage(|sample| sample.turns[1].start = 4, &["span", "mask"]);
    check_damage(|sample| sample.weight_versions[0].0 = 3, &["version"]);
    check_damage(|sample| sample.weight_versions.push((0, "v2".into())), &["version"]);
}
