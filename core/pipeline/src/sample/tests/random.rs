//! Random sessions against a plain list of lists.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Per turn: parent (of those before it, or none), scene, finish, whether it samples anything, and
/// which stretch of a few it has.
fn sessions() -> impl Strategy<Value = Vec<TurnRecord>> {
    let scenes = [Scene::Main, Scene::Main, Scene::Subagent, Scene::Compaction, Scene::Review];
    let finishes = [Finish::Stop, Finish::Stop, Finish::Length, Finish::Abort];
    let one = (
        any::<prop::sample::Index>(),
        proptest::sample::select(scenes.to_vec()),
        proptest::sample::select(finishes.to_vec()),
        0_u32..3,
        0_u32..2,
    );
    prop::collection::vec(one, 1..24).prop_map(|turns| {
        let turns = (0_u32..).zip(turns);
        turns
            .map(|(index, (parent, of, finish, ids, stretch))| {
                let parent = parent.index(index as usize + 1).checked_sub(1).map(|at| at as u32);
                let mut turn = scene(of, turn(index, parent));
                turn.finish = finish;
                turn.ids.truncate(ids as usize);
                turn.logprobs.truncate(ids as usize);
                turn.usage.completion_tokens = ids;
                turn.stretch = vec![7; 1 + stretch as usize];
                turn
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn random_sessions_train_every_turn_once(
        turns in sessions(),
        lost_turns in prop::collection::btree_set(0_u32..24, 0..4),
    ) {
        let more = lost_turns.into_iter().map(lost).collect();
        let samples = samples_of(turns.clone(), more);
        all_clean(&samples);

        let wanted = |turn: &TurnRecord| {
            turn.verdict.scene != Scene::Review
                && turn.finish != Finish::Abort
                && !turn.ids.is_empty()
        };
        let should: BTreeSet<u32> =
            turns.iter().filter(|turn| wanted(turn)).map(|turn| turn.turn.0).collect();
        let mut times: BTreeMap<u32, u32> = BTreeMap::new();
        for sample in &samples {
            // The path, turn by turn, from the plain list.
            let last = sample.turns.last().unwrap().turn;
            let mut path = vec![last];
            while let Some(parent) = turns[path[path.len() - 1].0 as usize].parent {
                path.push(parent);
            }
            path.reverse();
            let (mut tokens, mut mask, mut logprobs) = (vec![], vec![], Vec::<f32>::new());
            for turn in path.iter().map(|turn| &turns[turn.0 as usize]) {
                tokens.extend_from_slice(&turn.stretch);
                mask.resize(tokens.len(), 0);
                logprobs.resize(tokens.len(), 0.0);
                tokens.extend_from_slice(&turn.ids);
                logprobs.extend(&turn.logprobs);
                let span = sample.turns.iter().find(|span| span.turn == turn.turn);
                let trained = span.is_some_and(|span| sample.loss_mask[span.start as usize] == 1);
                mask.resize(tokens.len(), u8::from(trained));
                if trained {
                    *times.entry(turn.turn.0).or_default() += 1;
                }
            }
            prop_assert!(wanted(&turns[last.0 as usize]), "a leaf is trained");
            prop_assert_eq!(&sample.tokens, &tokens);
            prop_assert_eq!(&sample.loss_mask, &mask);
            prop_assert_eq!(&sample.logprobs, &logprobs);
        }
        prop_assert_eq!(times, should.into_iter().map(|turn| (turn, 1)).collect());
    }
}
