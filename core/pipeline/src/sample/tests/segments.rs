//! What becomes a segment, and where a shared span is trained.

use super::*;

#[test]
fn a_straight_session_is_one_sample() {
    let samples = samples(vec![turn(0, None), turn(1, Some(0))]);
    let [sample] = samples.as_slice() else { panic!("{samples:?}") };
    assert_eq!(sample.tokens, [1, 2, 0, 1, 2, 1, 2, 10, 11, 12]);
    assert_eq!(sample.loss_mask, [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]);
    assert_eq!((sample.prompt_len, sample.reward), (2, Some(1.0)));
    assert_eq!(sample.weight_versions, [(0, "v1".to_owned())]);
    assert_eq!((sample.outcome.as_str(), sample.scene.as_str()), ("done", "main"));
    assert_eq!(sample.messages.len(), 4);
    all_clean(&samples);
}

#[test]
fn j04_every_turn_of_a_chain_is_trained() {
    let chain = (0..4_u32).map(|at| turn(at, at.checked_sub(1))).collect();
    let samples = samples(chain);
    assert_eq!(trained(&samples), [[t(0), t(1), t(2), t(3)]]);
    all_clean(&samples);
}

#[test]
fn a_shared_span_is_trained_once_in_the_final_main_branch() {
    let samples = samples(vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0))]);
    assert_eq!(trained(&samples), [[0, t(1)], [t(0), t(2)]]);
    assert_eq!(samples[0].counts["trained_elsewhere_tokens"], 3);
    assert!(samples.iter().all(|sample| sample.counts["same_prompt_turns"] == 1));
    assert!(samples.iter().all(|sample| sample.segments == 2));
    all_clean(&samples);
}

#[test]
fn what_the_final_main_branch_does_not_have_is_trained_in_the_earliest() {
    let subagent = |index, parent| scene(Scene::Subagent, turn(index, parent));
    let samples = samples(vec![
        turn(0, None),
        subagent(1, None),
        subagent(2, Some(1)),
        subagent(3, Some(1)),
        turn(4, Some(0)),
        turn(5, None),
    ]);
    assert_eq!(trained(&samples), [vec![t(1), t(2)], vec![1, t(3)], vec![t(0), t(4)], vec![t(5)]]);
    all_clean(&samples);
}

#[test]
fn the_final_main_branch_is_one_that_the_agent_got() {
    // The second answer to the same prompt came last, and was lost.
    let turns = || vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0))];
    let samples = samples_of(turns(), vec![lost(2)]);
    assert_eq!(trained(&samples), [[t(0), t(1)], [0, t(2)]]);
    assert_eq!(samples[1].counts["undelivered_turns"], 1);
    assert_eq!(samples[0].counts["undelivered_turns"], 0);
    all_clean(&samples);
    // The last word about a delivery counts.
    let found = Record::Delivery(Delivery { turn: TurnIndex(2), whole: true });
    let samples = samples_of(turns(), vec![lost(2), found]);
    assert_eq!(trained(&samples), [[0, t(1)], [t(0), t(2)]]);
    assert_eq!(samples[1].counts["undelivered_turns"], 0);
}

#[test]
fn m31_a_cut_turn_is_trained_in_a_segment_of_its_own() {
    let note = said("You were cut off.", turn(3, Some(1)));
    let note = TurnRecord { stretch: vec![8, 9, 9], ..note };
    let turns = vec![turn(0, None), turn(1, Some(0)), turn(2, Some(1)), note, turn(4, Some(3))];
    let samples = samples_of(turns, vec![lost(2)]);
    assert_eq!(trained(&samples), [vec![0, 1, t(2)], vec![t(0), t(1), t(3), t(4)]]);
    let undelivered = |sample: &Sample| sample.counts["undelivered_turns"];
    assert_eq!(samples.iter().map(undelivered).collect::<Vec<_>>(), [1, 0]);
    all_clean(&samples);
}

#[test]
fn a_lost_answer_that_the_agent_went_on_from_was_not_lost() {
    let samples = samples_of(vec![turn(0, None), turn(1, Some(0))], vec![lost(0)]);
    assert_eq!(samples[0].counts["undelivered_turns"], 0);
}

#[test]
fn m42_a_review_is_never_the_final_leaf() {
    let review = |index, parent| scene(Scene::Review, turn(index, parent));
    let samples = samples(vec![
        turn(0, None),
        turn(1, Some(0)),
        review(2, Some(1)),
        review(3, Some(2)),
        scene(Scene::Heartbeat, turn(4, None)),
    ]);
    assert_eq!(trained(&samples), [[t(0), t(1)]]);
    assert_eq!((samples[0].segments, samples[0].scene.as_str()), (1, "main"));
    assert_eq!(samples[0].messages.len(), 4, "no text of the review");
    all_clean(&samples);
}

#[test]
fn an_untrained_turn_that_is_gone_on_from_is_context() {
    let review = scene(Scene::Review, turn(1, Some(0)));
    let samples = samples(vec![turn(0, None), review, turn(2, Some(1))]);
    assert_eq!(trained(&samples), [[t(0), 1, t(2)]]);
    all_clean(&samples);
}

#[test]
fn aborted_and_empty_answers_end_no_branch() {
    let aborted = |index, parent| TurnRecord { finish: Finish::Abort, ..turn(index, parent) };
    let mut empty = TurnRecord { ids: vec![], logprobs: vec![], ..turn(4, Some(0)) };
    (empty.versions, empty.usage.completion_tokens) = (Vec::new(), 0);
    let title = scene(Scene::Title, turn(1, None));
    let turns = vec![turn(0, None), title, aborted(2, None), aborted(3, Some(0)), empty];
    let alone = samples(turns);
    assert_eq!(trained(&alone), [[t(0)]]);
    assert_eq!(alone[0].segments, 1);
    all_clean(&alone);
    assert_eq!(samples(vec![aborted(0, None)]), []);
}

#[test]
fn i07_a_turn_without_output_is_gone_on_from() {
    let mut empty = TurnRecord { ids: vec![], logprobs: vec![], ..turn(1, Some(0)) };
    (empty.versions, empty.usage.completion_tokens) = (Vec::new(), 0);
    let samples = samples(vec![turn(0, None), empty, turn(2, Some(1))]);
    assert_eq!(trained(&samples), [[t(0), t(2)]]);
    assert_eq!(samples[0].tokens, [1, 2, 0, 1, 2, 1, 2, 1, 2, 20, 21, 22]);
    all_clean(&samples);
}

#[test]
fn j08_a_turn_that_does_not_extend_the_last_begins_another_segment() {
    let turns = (0..10_u32).map(|at| turn(at, at.checked_sub(1).filter(|_| at != 6))).collect();
    let samples = samples(turns);
    let expected = [(0..6).map(t).collect::<Vec<_>>(), (6..10).map(t).collect()];
    assert_eq!(trained(&samples), expected);
    all_clean(&samples);
}

#[test]
fn j09_a_compaction_gives_three_segments_and_loses_none() {
    let mut turns: Vec<TurnRecord> = (0..6_u32).map(|at| turn(at, at.checked_sub(1))).collect();
    turns.push(scene(Scene::Compaction, turn(6, None)));
    turns.extend((7..10_u32).map(|at| turn(at, (at > 7).then(|| at - 1))));
    let samples = samples(turns);
    let expected = [(0..6).map(t).collect::<Vec<_>>(), vec![t(6)], (7..10).map(t).collect()];
    assert_eq!(trained(&samples), expected);
    assert_eq!(
        samples.iter().map(|s| s.scene.as_str()).collect::<Vec<_>>(),
        ["main", "compaction", "main"]
    );
    all_clean(&samples);
}

#[test]
fn j13_before_the_seal_the_outcome_is_open() {
    let mut records = records(vec![turn(0, None), turn(1, Some(0))], Vec::new());
    records.pop();
    let samples = build(&records, &attempt());
    assert_eq!(samples[0].outcome, "open");
    all_clean(&samples);
}

#[test]
fn m47_weight_versions_are_spans_over_the_sample() {
    let span = |start, version: &str| VersionSpan { start, version: version.into() };
    let straddling = TurnRecord {
        versions: vec![span(0, "v1"), span(2, "v2")],
        resumed_at: vec![2],
        ..turn(1, Some(0))
    };
    let silent = TurnRecord { versions: vec![], ..turn(2, Some(1)) };
    let samples = samples(vec![turn(0, None), straddling, silent]);
    let expected = [(0, "v1"), (9, "v2"), (12, "unreported")].map(|(at, v)| (at, v.to_owned()));
    assert_eq!(samples[0].weight_versions, expected);
    assert_eq!(samples[0].turns[1].resumed_at, [9]);
    assert_eq!(samples[0].counts["resumed_turns"], 1);
    all_clean(&samples);
}

#[test]
fn rules_and_counts_come_from_the_turns() {
    let mut first = TurnRecord { foreign_tokens: 2, overlay_tokens: 1, ..turn(0, None) };
    first.messages[0].media_dropped = 3;
    first.reply.ill_formed = true;
    first.skipped = [("thinking".to_owned(), 2)].into();
    first.context_diff_tokens = 50;
    let second = TurnRecord {
        rules: vec!["secrets".into(), "dates".into()],
        anew: Some("template".into()),
        overlay_tokens: 2,
        skipped: [("thinking".to_owned(), 2), ("citation".to_owned(), 1)].into(),
        context_diff_tokens: 5,
        ..turn(1, Some(0))
    };
    let samples = samples(vec![first, second]);
    let sample = &samples[0];
    let rules: Vec<Option<&str>> = sample.turns.iter().map(|span| span.rule.as_deref()).collect();
    assert_eq!(rules, [None, Some("secrets+dates")]);
    let counts: Vec<(&str, u64)> = sample.counts.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let expected = [
        ("context_diff_tokens", 5),
        ("foreign_context_tokens", 2),
        ("ill_formed_turns", 1),
        ("marker_conflicts", 0),
        ("media_dropped", 3),
        ("overlay_tokens", 3),
        ("parts_skipped", 3),
        ("rendered_anew_turns", 1),
        ("resumed_turns", 0),
        ("same_prompt_turns", 0),
        ("trained_elsewhere_tokens", 0),
        ("undelivered_turns", 0),
        ("unknown_turns", 0),
        ("wrapped_instructions", 0),
    ];
    assert_eq!(counts, expected);
}
