//! Records survive their frames; torn ends are told from damage.

mod fuzz;

use serde_json::Map;

use super::*;
use crate::id::{SessionHash, SessionId, TurnIndex};
use crate::scene::Verdict;
use crate::trajectory::Digest;
use crate::turn::{Finish, Message, Reply, Role, Sampling, Usage, VersionSpan};

/// A small turn that other rooms' tests change to their needs.
pub(crate) fn turn_record(turn: TurnIndex) -> TurnRecord {
    let reply = Reply {
        reasoning: None,
        content: "a".into(),
        tool_calls: Vec::new(),
        ill_formed: false,
        remarks: Vec::new(),
    };
    TurnRecord {
        turn,
        parent: None,
        root: Digest::of(&blake3::Hasher::new()),
        joined: None,
        rules: Vec::new(),
        anew: None,
        elements: Vec::new(),
        answer: None,
        sampling: Sampling::default(),
        asked_sampling: None,
        tool_choice: Default::default(),
        parallel_tool_calls: None,
        skipped: Default::default(),
        stripped: 0,
        verdict: Verdict::default_main(),
        dialect: "chat".into(),
        request_id: "r".into(),
        messages: vec![Message::text(Role::User, "q")],
        tools: Default::default(),
        template_kwargs: Map::new(),
        reply,
        finish: Finish::Stop,
        stop_text: None,
        versions: vec![VersionSpan { start: 0, version: "v1".into() }],
        reasoning_open: false,
        usage: Usage { prompt_tokens: 3, completion_tokens: 2, cached_tokens: None },
        context_diff_tokens: 0,
        overlay_tokens: 0,
        marker_conflicts: 0,
        wrapped_instructions: 0,
        resumed_at: Vec::new(),
        foreign_tokens: 0,
        times: TurnTimes::default(),
        stretch: vec![1, 2, 3],
        ids: vec![4, 5],
        logprobs: vec![-0.5, -1.5],
        columns: [0; 3],
    }
}

/// An opening record.
pub(crate) fn opened() -> Opened {
    Opened {
        version: 1,
        session_id: SessionId::new("n1", SessionHash(7)),
        at_ms: 5,
        options: SessionOptions::default(),
        node_scenes: Vec::new(),
        node_rules: Vec::new(),
        model: "m".into(),
        engine: "vllm".into(),
        tokenizer_digest: "t".into(),
        template_digest: "c".into(),
        parser: "qwen3/1".into(),
        rollgate: "0".into(),
    }
}

fn records() -> Vec<Record> {
    vec![
        Record::Opened(Box::new(opened())),
        Record::Turn(Box::new(turn_record(TurnIndex(0)))),
        Record::Delivery(Delivery { turn: TurnIndex(0), whole: false }),
        Record::Reward(Reward { reward: Some(0.5), parts: Default::default() }),
        Record::Sealed(Sealed { at_ms: 9 }),
    ]
}

fn file() -> (Vec<u8>, Vec<usize>) {
    let (mut file, mut ends) = (Vec::new(), vec![0]);
    for record in records() {
        file.extend_from_slice(&record.to_frame().unwrap());
        ends.push(file.len());
    }
    (file, ends)
}

#[test]
fn records_survive_their_frames() {
    let (file, _) = file();
    assert_eq!(Frames::new(&file).read_all().unwrap(), (records(), Tail::Whole));
}

/// By hand: a session that an older version wrote must be read, and the other way round.
#[test]
fn a_frame_is_these_bytes() {
    let mut turn = turn_record(TurnIndex(0));
    turn.columns = [3, 2, 2];
    let members = serde_json::to_string(&turn).unwrap();
    let json = format!(r#"{{"kind":"turn",{}"#, &members[1..]);
    assert!(json.ends_with(r#""columns":[3,2,2]}"#));
    let ids = [1_u32, 2, 3, 4, 5].map(u32::to_le_bytes).concat();
    let logprobs = [-0.5_f32, -1.5].map(f32::to_le_bytes).concat();
    let length = (json.len() as u32).to_le_bytes();
    let payload = [&length[..], json.as_bytes(), &ids, &logprobs].concat();
    let (size, sum) = ((payload.len() as u32).to_le_bytes(), blake3::hash(&payload));
    let frame = [b"RGJ1", &size[..], &sum.as_bytes()[..8], &payload].concat();
    let mut record = Record::Turn(Box::new(turn_record(TurnIndex(0))));
    assert_eq!(record.frame().unwrap(), frame);
    assert_eq!(record, Record::Turn(Box::new(turn_record(TurnIndex(0)))), "unchanged");
    assert_eq!(record.to_frame().unwrap(), frame);
}

#[test]
fn a_file_cut_anywhere_loses_only_what_was_not_whole() {
    let (file, ends) = file();
    for cut in 0..file.len() {
        let (read, tail) = Frames::new(&file[..cut]).read_all().unwrap();
        let whole = ends.iter().filter(|end| **end > 0 && **end <= cut).count();
        assert_eq!(read.len(), whole, "cut at {cut}");
        let valid_bytes = ends[whole] as u64;
        match tail {
            Tail::Whole => assert_eq!(valid_bytes, cut as u64),
            Tail::Torn { valid_bytes: valid, lost_bytes } => {
                assert_eq!((valid, lost_bytes), (valid_bytes, cut as u64 - valid_bytes));
            }
        }
    }
}

#[test]
fn damage_in_the_middle_is_not_taken_for_a_torn_end() {
    let (file, ends) = file();
    for (at, frame) in [(ends[1] + 20, 1), (ends[2] - 1, 1), (file.len() - 1, 4)] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        let error = Frames::new(&damaged).read_all().unwrap_err();
        assert!(
            matches!(error, FrameError::Damaged(byte) if byte == ends[frame] as u64),
            "{error}"
        );
    }
}

#[test]
fn columns_that_do_not_add_up_are_refused() {
    let json = br#"{"kind":"reward","reward":1.0}"#;
    let json = |out: &mut Vec<u8>| {
        out.extend_from_slice(json);
        Ok(())
    };
    let frame = frame::write(0, json, |out| out.extend_from_slice(b"left over")).unwrap();
    assert!(Frames::new(&frame).read_all().is_ok(), "columns of other kinds are ignored");
    assert!(turn_record(TurnIndex(0)).put_columns(b"abc").is_err());
}

#[test]
fn turns_out_of_order_are_refused() {
    let orphan = TurnRecord { parent: Some(TurnIndex(0)), ..turn_record(TurnIndex(0)) };
    for turn in [turn_record(TurnIndex(1)), orphan] {
        let frame = Record::Turn(Box::new(turn)).to_frame().unwrap();
        let error = Frames::new(&frame).read_all().unwrap_err();
        assert!(matches!(error, FrameError::OutOfOrder(_)), "{error}");
    }
}
