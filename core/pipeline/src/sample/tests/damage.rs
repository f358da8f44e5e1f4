//! What the checks find.

use super::*;

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
    check_damage(|sample| sample.logprobs[3] = 0.5, &["logprob"]);
    check_damage(|sample| sample.logprobs[0] = -1.0, &["logprob"]);
    check_damage(|sample| sample.logprobs.truncate(3), &["length"]);
    check_damage(|sample| sample.tokens.truncate(3), &["length", "length"]);
    check_damage(|sample| sample.turns[1].start = 4, &["span", "mask"]);
    check_damage(|sample| sample.weight_versions[0].0 = 3, &["version"]);
    check_damage(|sample| sample.weight_versions.push((0, "v2".into())), &["version"]);
}

#[test]
fn damage_beside_the_columns_is_found() {
    let damaged = |damage: &dyn Fn(&mut Sample)| {
        let mut sample = samples(vec![turn(0, None), turn(1, Some(0))]).remove(0);
        damage(&mut sample);
        check(&sample).iter().map(|violation| violation.code).collect::<Vec<_>>()
    };
    assert_eq!(damaged(&|sample| sample.turns[1].turn = TurnIndex(0)), ["turn"]);
    assert_eq!(damaged(&|sample| sample.turns[0].resumed_at = vec![1]), ["resumed"]);
    assert_eq!(damaged(&|sample| sample.turns[0].resumed_at = vec![4, 3]), ["resumed"]);
    assert_eq!(damaged(&|sample| sample.turns[0].resumed_at = vec![3, 4, 5]), [""; 0]);
    assert_eq!(damaged(&|sample| sample.prompt_len = 1), ["prompt_len"]);
    assert_eq!(damaged(&|sample| sample.segment = 1), ["sample_id", "segment"]);
    assert_eq!(damaged(&|sample| sample.turns[0].scene = "zzz".into()), ["turn"]);
    assert_eq!(damaged(&|sample| sample.turns[0].finish_reason = "zzz".into()), ["turn"]);
    assert_eq!(damaged(&|sample| sample.turns[0].finish_reason = "abort".into()), ["turn"]);
    assert_eq!(damaged(&|sample| sample.turns[0].ill_formed = true), ["counts"]);
    let sample = samples(vec![turn(0, None)]).remove(0);
    assert_eq!(check_vocabulary(&sample, 3), None);
    assert_eq!(check_vocabulary(&sample, 2).unwrap().code, "vocabulary");
}

/// The reasons that a session with this turn has.
fn reasons(turn: TurnRecord) -> Vec<String> {
    samples(vec![turn])[0].health.reasons().to_vec()
}

#[test]
fn i08_lengths_that_differ_make_an_unhealthy_sample() {
    let short = TurnRecord { logprobs: vec![-0.5], ..turn(0, None) };
    assert_eq!(reasons(short), ["length"]);
    let mut counted_otherwise = turn(0, None);
    counted_otherwise.usage.completion_tokens = 4;
    assert_eq!(reasons(counted_otherwise), ["length"]);
    // The columns of the whole can agree where those of a turn do not.
    let short = TurnRecord { logprobs: vec![-0.5; 2], ..turn(0, None) };
    let samples = samples(vec![short, turn(1, Some(0))]);
    assert_eq!(samples[0].tokens.len(), samples[0].logprobs.len());
    assert!(samples[0].health.reasons().contains(&"length".to_owned()), "{samples:?}");
}

#[test]
fn a_record_that_cannot_be_is_a_reason() {
    let invalid = TurnRecord { logprobs: vec![-0.5, -9999.0, -1.0], ..turn(0, None) };
    assert_eq!(reasons(invalid), ["logprob"]);
    let span = |start| VersionSpan { start, version: format!("v{start}") };
    for versions in [vec![span(1)], vec![span(0), span(3)], vec![span(0), span(2), span(1)]] {
        assert!(reasons(TurnRecord { versions, ..turn(0, None) }).contains(&"version".to_owned()));
    }
    let resumed = TurnRecord { resumed_at: vec![4], ..turn(0, None) };
    assert_eq!(reasons(resumed), ["resumed"]);
}

#[test]
fn a_prompt_that_is_not_what_the_engine_was_sent_is_a_reason() {
    let mut records = records(vec![turn(0, None), turn(1, Some(0))], Vec::new());
    let Record::Turn(second) = &mut records[2] else { panic!("{records:?}") };
    second.usage.prompt_tokens += 1;
    assert_eq!(build(&records, &attempt())[0].health.reasons(), ["prompt"]);
}

#[test]
fn a_broken_chain_of_parents_is_a_reason() {
    let mut records = records(vec![turn(0, None), turn(1, Some(0))], Vec::new());
    let Record::Turn(second) = &mut records[2] else { panic!("{records:?}") };
    second.parent = Some(TurnIndex(7));
    let samples = build(&records, &attempt());
    assert_eq!(trained(&samples), [[t(0)]]);
    assert_eq!(samples[0].health.reasons(), ["parents"]);
}

/// Damages one of two samples of a session and expects these codes among them.
fn check_session_damage(damage: impl Fn(&mut [Sample]), codes: &[(usize, &str)]) {
    let subagent = scene(Scene::Subagent, turn(3, None));
    let mut all = samples(vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0)), subagent]);
    assert_eq!(check_session(&all), []);
    damage(&mut all);
    let found = check_session(&all);
    let found: Vec<_> = found.iter().map(|(at, violation)| (*at, violation.code)).collect();
    assert_eq!(found, codes);
}

#[test]
fn damage_across_samples_is_found() {
    let twice = |all: &mut [Sample]| all[0].loss_mask[2..5].fill(1);
    check_session_damage(twice, &[(0, "trained_twice"), (1, "trained_twice")]);
    check_session_damage(|all| all[1].loss_mask[2..5].fill(0), &[(0, "untrained")]);
    check_session_damage(|all| all[1].turns[0].scene = "title".into(), &[(1, "prefix")]);
    let untrained = |all: &mut [Sample]| all[2].turns[0].scene = "title".into();
    check_session_damage(untrained, &[(2, "scene")]);
    check_session_damage(|all| all[1].tokens[0] = 9, &[(1, "prefix")]);
    check_session_damage(|all| all[1].logprobs[3] = -0.125, &[(1, "prefix")]);
    check_session_damage(|all| all[1].weight_versions[0].1 = "v2".into(), &[(1, "prefix")]);
    check_session_damage(|all| all[1].tokens[6] = 9, &[]);
    check_session_damage(|all| all[1].segments = 4, &[(1, "segments")]);
    check_session_damage(|all| all[1].segment = 0, &[(0, "segments")]);
    check_session_damage(|all| all[1].group_id = "h".into(), &[(1, "segments")]);
    check_session_damage(|all| all[2].siblings = 4, &[(2, "siblings")]);
    let to = |segment, turn| {
        let session_id = opened().session_id;
        Link { kind: LinkKind::Spawned, to: LinkTarget { session_id, segment, turn } }
    };
    check_session_damage(|all| all[2].links.push(to(1, Some(TurnIndex(2)))), &[]);
    check_session_damage(|all| all[2].links.push(to(1, Some(TurnIndex(1)))), &[(2, "link")]);
    check_session_damage(|all| all[2].links.push(to(3, None)), &[(2, "link")]);
}

#[test]
fn a_part_of_a_session_is_told_as_such_and_not_as_untrained() {
    let all = samples(vec![turn(0, None), turn(1, Some(0)), turn(2, Some(0))]);
    let found = check_session(&all[..1]);
    assert_eq!(found.iter().map(|(_, violation)| violation.code).collect::<Vec<_>>(), ["segments"]);
    let share = trained_share(&all[..1]);
    assert_eq!((share.tokens, share.trained_once), (6, 3));
    let share = trained_share(&all);
    assert_eq!((share.tokens, share.trained_once), (9, 9));
}
