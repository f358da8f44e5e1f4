//! Segments of small sessions, and what the checks find in damaged samples.

use super::*;
use crate::id::TurnIndex;
use crate::record::tests::{opened, turn_record};
use crate::record::{Delivery, Record, Reward, Sealed, TurnRecord};
use crate::scene::{Scene, Verdict};
use crate::turn::{Finish, Message, Role, VersionSpan};

mod damage;
mod random;
mod segments;

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

/// A turn with a stretch of two and an answer of three ids.
pub(super) fn turn(index: u32, parent: Option<u32>) -> TurnRecord {
    let mut turn = TurnRecord {
        parent: parent.map(TurnIndex),
        stretch: vec![1, 2],
        ids: vec![10 * index, 10 * index + 1, 10 * index + 2],
        logprobs: vec![-0.25 - index as f32 / 64.0; 3],
        ..turn_record(TurnIndex(index))
    };
    turn.usage.completion_tokens = 3;
    turn
}

pub(super) fn scene(scene: Scene, turn: TurnRecord) -> TurnRecord {
    TurnRecord { verdict: Verdict::entry(scene), ..turn }
}

pub(super) fn said(text: &str, turn: TurnRecord) -> TurnRecord {
    TurnRecord { messages: vec![Message::text(Role::User, text)], ..turn }
}

fn lost(turn: u32) -> Record {
    Record::Delivery(Delivery { turn: TurnIndex(turn), whole: false })
}

/// Sets what the engine counted of each prompt.
fn counted(turns: &mut [TurnRecord]) {
    let mut ends: Vec<usize> = Vec::new();
    for turn in turns {
        let before = turn.parent.map_or(0, |parent| ends[parent.0 as usize]);
        turn.usage.prompt_tokens = (before + turn.stretch.len()) as u32;
        ends.push(before + turn.stretch.len() + turn.ids.len());
    }
}

fn records(mut turns: Vec<TurnRecord>, more: Vec<Record>) -> Vec<Record> {
    counted(&mut turns);
    let mut records = vec![Record::Opened(Box::new(opened()))];
    records.extend(turns.into_iter().map(|turn| Record::Turn(Box::new(turn))));
    records.extend(more);
    records.push(Record::Reward(Reward { reward: Some(1.0), parts: Default::default() }));
    records.push(Record::Sealed(Sealed { at_ms: 1 }));
    records
}

/// Samples of a sealed session with these turns.
pub(super) fn samples_of(turns: Vec<TurnRecord>, more: Vec<Record>) -> Vec<Sample> {
    build(&records(turns, more), &attempt())
}

fn samples(turns: Vec<TurnRecord>) -> Vec<Sample> {
    samples_of(turns, Vec::new())
}

/// Turns of each sample; those that it trains are negative, less one.
fn trained(samples: &[Sample]) -> Vec<Vec<i32>> {
    let turns = |sample: &Sample| {
        let spans = sample.turns.iter();
        spans
            .map(|span| {
                let mask = &sample.loss_mask[span.start as usize..span.end as usize];
                let turn = span.turn.0 as i32;
                if mask.iter().all(|mask| *mask == 1) { -1 - turn } else { turn }
            })
            .collect()
    };
    samples.iter().map(turns).collect()
}

/// How [`trained`] writes a turn that is trained.
const fn t(turn: i32) -> i32 {
    -1 - turn
}

fn all_clean(samples: &[Sample]) {
    for sample in samples {
        assert_eq!(sample.health.reasons(), &[] as &[String], "{}", sample.sample_id);
    }
    assert_eq!(check_session(samples), []);
    let share = trained_share(samples);
    assert_eq!(share.tokens, share.trained_once);
}

#[test]
fn json_round_trip() {
    let sample = samples(vec![turn(0, None), turn(1, None)]).remove(0);
    let text = serde_json::to_string(&sample).unwrap();
    assert!(text.contains(r#""health":"clean""#), "{text}");
    assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
}
