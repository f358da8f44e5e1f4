//! Links between segments of scripted sessions.

use super::*;
use crate::record::{Delivery, Record, TurnRecord};
use crate::sample::tests::{said, samples_of, scene, turn};
use crate::sample::{Sample, check_session};
use crate::scene::Scene;
use crate::turn::ToolCall;

const SUMMARY: &str = "<analysis>Long and hard.</analysis>\n<summary>The parser was rewritten; two \
                       tests of the lexer still fail.\nNext: fix them.</summary>";
const TAKEN_OVER: &str = "Summary: The parser was rewritten; two tests of the\nlexer still fail. \
                          Next: fix them.";
const TASK: &str = "Find every caller of the old parser and list them with their files.";

/// The links of each segment as `kind segment.turn`.
fn links_of(turns: Vec<TurnRecord>, lost: &[u32]) -> Vec<Vec<String>> {
    let lost =
        lost.iter().map(|turn| Record::Delivery(Delivery { turn: TurnIndex(*turn), whole: false }));
    let samples = samples_of(turns, lost.collect());
    assert_eq!(check_session(&samples), []);
    let written = |link: &Link| {
        let kind = serde_json::to_value(link.kind).unwrap();
        format!("{} {}.{}", kind.as_str().unwrap(), link.to.segment, link.to.turn.unwrap().0)
    };
    samples.iter().map(|sample: &Sample| sample.links.iter().map(written).collect()).collect()
}

fn check(turns: Vec<TurnRecord>, lost: &[u32], expected: &[&[&str]]) {
    assert_eq!(links_of(turns, lost), expected);
}

fn answering(text: &str, turn: TurnRecord) -> TurnRecord {
    let mut turn = turn;
    turn.reply.content = text.into();
    turn
}

fn calling(arguments: serde_json::Value, turn: TurnRecord) -> TurnRecord {
    let mut turn = turn;
    turn.reply.tool_calls.push(ToolCall {
        id: "c".into(),
        name: "task".into(),
        arguments: arguments.to_string(),
    });
    turn
}

#[test]
fn j09_a_compaction_that_extends_the_line_is_linked_to() {
    let turns = vec![
        turn(0, None),
        turn(1, Some(0)),
        answering(SUMMARY, scene(Scene::Compaction, turn(2, Some(1)))),
        said(TAKEN_OVER, turn(3, None)),
        turn(4, Some(3)),
    ];
    // The compaction goes on from the main line, so both are one segment's path.
    check(turns, &[], &[&[], &["compacts 0.1", "compacts 0.2"]]);
}

#[test]
fn j09_a_compaction_apart_is_a_third_segment() {
    let turns = vec![
        turn(0, None),
        turn(1, Some(0)),
        answering(SUMMARY, scene(Scene::Compaction, turn(2, None))),
        scene(Scene::Title, turn(3, None)),
        said(TAKEN_OVER, turn(4, None)),
    ];
    check(turns, &[], &[&[], &[], &["compacts 0.1", "compacts 1.2"]]);
}

#[test]
fn two_compactions_of_parts_are_both_linked_to() {
    let other = "The other half: the printer keeps comments now, all of its tests pass.";
    let both = format!("{TAKEN_OVER}\n\n{other}");
    let turns = vec![
        turn(0, None),
        answering(SUMMARY, scene(Scene::Compaction, turn(1, None))),
        answering(other, scene(Scene::Compaction, turn(2, None))),
        said(&both, turn(3, None)),
    ];
    check(turns, &[], &[&[], &[], &[], &["compacts 0.0", "compacts 1.1", "compacts 2.2"]]);
}

#[test]
fn a_second_compaction_takes_the_place_of_the_first() {
    let second =
        format!("{TAKEN_OVER} Then the lexer was fixed, and the release is being prepared.");
    let turns = vec![
        turn(0, None),
        answering(SUMMARY, scene(Scene::Compaction, turn(1, None))),
        said(TAKEN_OVER, turn(2, None)),
        answering(&second, said(TAKEN_OVER, scene(Scene::Compaction, turn(3, None)))),
        said(&second, turn(4, None)),
    ];
    let expected: [&[&str]; 5] =
        [&[], &[], &["compacts 0.0", "compacts 1.1"], &[], &["compacts 2.2", "compacts 3.3"]];
    check(turns, &[], &expected);
}

#[test]
fn a_new_conversation_about_the_same_task_is_no_compaction() {
    let summary = format!("The user asked: {TASK} All of it is done, in good order.");
    let turns = vec![
        said(TASK, turn(0, None)),
        answering(&summary, said(TASK, scene(Scene::Compaction, turn(1, None)))),
        said(TASK, turn(2, None)),
    ];
    check(turns, &[], &[&[], &[], &[]]);
}

#[test]
fn a_compaction_that_keeps_the_head_is_not_a_rewind() {
    let turns = vec![
        turn(0, None),
        turn(1, Some(0)),
        answering(SUMMARY, scene(Scene::Compaction, turn(2, None))),
        said(TAKEN_OVER, turn(3, Some(0))),
    ];
    check(turns, &[], &[&[], &[], &["compacts 0.1", "compacts 1.2"]]);
}

#[test]
fn j05_subagents_lead_to_the_call_that_started_them() {
    let call = serde_json::json!({"kind": "explore", "prompt": TASK});
    let behind_a_reminder = format!("<reminder>Be brief.</reminder>\n\n{TASK}\n");
    let turns = vec![
        turn(0, None),
        calling(call, turn(1, Some(0))),
        said(&behind_a_reminder, scene(Scene::Subagent, turn(2, None))),
        said("other words", scene(Scene::Subagent, turn(3, None))),
        turn(4, Some(1)),
        turn(5, Some(2)),
    ];
    check(turns, &[], &[&[], &[], &["spawned 1.1"]]);
}

#[test]
fn two_equal_subagents_lead_to_the_same_turn() {
    let call = || serde_json::json!({"prompt": TASK});
    let subagent = |index| said(TASK, scene(Scene::Subagent, turn(index, None)));
    let turns = vec![
        calling(call(), calling(call(), turn(0, None))),
        subagent(1),
        subagent(2),
        calling(call(), turn(3, Some(0))),
        subagent(4),
    ];
    let expected: [&[&str]; 4] = [&["spawned 2.0"], &["spawned 2.0"], &[], &["spawned 2.3"]];
    check(turns, &[], &expected);
}

#[test]
fn j12_a_retry_leads_to_the_turn_whose_answer_was_lost() {
    let again = TurnRecord { ids: vec![91, 92, 93], ..turn(2, Some(0)) };
    let turns = vec![turn(0, None), turn(1, Some(0)), again, turn(3, Some(2))];
    check(turns.clone(), &[1], &[&[], &["retries 0.1"]]);
    // Both were delivered: siblings, which nothing ties together.
    check(turns, &[], &[&[], &[]]);
}

#[test]
fn of_several_lost_answers_the_later_repeats_the_earlier() {
    let turns = vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0)), turn(3, Some(0))];
    check(turns, &[1, 2], &[&[], &["retries 0.1"], &["retries 0.1", "retries 1.2"]]);
    let late = vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0))];
    check(late, &[2], &[&["retries 1.2"], &[]]);
}

#[test]
fn a_rewind_leads_to_where_the_other_line_went_on() {
    let on = |index, parent| TurnRecord { stretch: vec![7, index], ..turn(index, parent) };
    let usage = |mut turn: TurnRecord, prompt: u32| {
        turn.usage.prompt_tokens = prompt;
        turn
    };
    let turns = vec![
        turn(0, None),
        turn(1, Some(0)),
        scene(Scene::Review, turn(2, Some(1))),
        usage(on(3, Some(0)), 7),
        usage(on(4, Some(0)), 7),
    ];
    check(turns.clone(), &[], &[&[], &["rewinds 0.1"], &["rewinds 1.3"]]);
    let mut rendered_anew = turns;
    rendered_anew[3].anew = Some("template".into());
    check(rendered_anew, &[], &[&[], &[], &["rewinds 1.3"]]);
}

#[test]
fn links_read_as_the_contract_says() {
    let link = Link {
        kind: LinkKind::Compacts,
        to: LinkTarget {
            session_id: crate::record::tests::opened().session_id,
            segment: 3,
            turn: Some(TurnIndex(9)),
        },
    };
    let text = serde_json::to_string(&link).unwrap();
    let id = &link.to.session_id;
    let expected =
        format!(r#"{{"kind":"compacts","to":{{"session_id":"{id}","segment":3,"turn":9}}}}"#);
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Link>(&text).unwrap(), link);
}
