//! Sessions that do not name their agent.

use super::*;

const HERMES: &str = "You are Hermes.\n\nConversation started: Sunday\nModel: m\nProvider: custom";
const JUDGE: &str = "You are a strict judge evaluating whether an autonomous agent has";

fn unnamed() -> SceneSet {
    SceneSet::for_session(None, &[], &[]).unwrap()
}

#[track_caller]
fn check(case: &Case, scene: Scene, rule: &str) {
    assert_eq!(case.verdict(&unnamed()), (scene, rule.to_owned()));
}

#[test]
fn a_main_loop_shows_the_agent_and_what_it_asks_besides_is_not_main() {
    let main = Case::new(&[(Role::System, HERMES), (Role::User, "q")]).tools(&["terminal"]);
    let (scene, rule) = main.verdict(&unnamed());
    assert_eq!(detected_by(&Verdict { scene, rule }), Some("hermes"));
    let other = Case::new(&[(Role::System, "You judge commands."), (Role::User, "rm")]);
    check(&other, Scene::Main, "default-main");
    check(&other.with(|case| case.detected = Some("hermes")), Scene::Unknown, "none");
    // Only its main loop: texts of side calls may be another agent's, too.
    let verdict = |scene, rule: &str| Verdict { scene, rule: rule.to_owned() };
    for verdict in [
        verdict(Scene::Compaction, "openclaw-compaction"),
        verdict(Scene::Main, "forge-main"),
        Verdict::default_main(),
        Verdict::none(),
        Verdict::entry(Scene::Main),
    ] {
        assert_eq!(detected_by(&verdict), None, "{verdict:?}");
    }
}

#[test]
fn what_an_agent_asks_besides_shows_it_before_its_main_loop_did() {
    let judge = || Case::new(&[(Role::System, JUDGE), (Role::User, "Goal")]);
    check(&judge(), Scene::Review, "hermes-goal-judge");
    // An agent that is named is no other.
    let forge = SceneSet::for_session(Some("forge"), &[], &[]).unwrap();
    assert_eq!(judge().verdict(&forge), (Scene::Main, "default-main".to_owned()));
    // Nor does a user's word show an agent where there are tools.
    let fork = Case::new(&[(Role::User, "You are a forked worker process")]).tools(&["bash"]);
    check(&fork, Scene::Main, "default-main");
    let off = rules("[[scenes]]\nname = \"hermes-goal-judge\"\nscene = \"off\"\n");
    let off = SceneSet::for_session(None, &[], &off).unwrap();
    assert_eq!(judge().verdict(&off), (Scene::Unknown, "none".to_owned()));
}

#[test]
fn a_call_that_shows_another_agent_is_that_ones() {
    let codex = Case::new(&[(Role::User, "q")])
        .header("originator", "codex_exec")
        .tools(&["exec_command"])
        .with(|case| case.detected = Some("hermes"));
    check(&codex, Scene::Main, "codex-main-shell");
}

#[test]
fn what_is_off_may_be_gone_from_a_session_that_was_opened_before() {
    let off = rules("[[scenes]]\nname = \"of-old\"\nscene = \"off\"\n");
    assert!(SceneSet::for_session(None, &[], &off).is_err());
    let case = Case::new(&[(Role::System, JUDGE), (Role::User, "Goal")]);
    let set = SceneSet::recorded(None, &off, &off).unwrap();
    assert_eq!(case.verdict(&set), (Scene::Review, "hermes-goal-judge".to_owned()));
}
