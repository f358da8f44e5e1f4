//! The files that come with Rollgate.

use std::collections::BTreeSet;

use super::super::set::{File, SHIPPED};
use super::*;

fn files() -> Vec<File> {
    SHIPPED.iter().map(|text| toml::from_str(text).unwrap()).collect()
}

/// Whether something must be there: a rule of absences alone would take in new kinds of calls.
fn positive(when: &When) -> bool {
    let When { header, dialect: _, stream, model, min_tools, tool, min_messages, .. } = when;
    let texts = [&when.system, &when.first_user, &when.last_user, &when.last, &when.format, model];
    !header.is_empty()
        || !tool.is_empty()
        || texts.iter().any(|text| text.is_some())
        || min_tools.is_some_and(|least| least > 0)
        || (min_messages.is_some_and(|least| least > 0) && stream.is_some())
        || when.max_tokens.is_some()
        || when.compaction == Some(true)
        || when.continues == Some(true)
}

#[test]
fn shipped_files_know_their_main_loop_by_what_is_there_and_catch_nothing_else() {
    SceneSet::for_session(None, &[], &[]).unwrap();
    let mut agents = BTreeSet::new();
    let mut names = BTreeSet::new();
    for File { agent, detect, scenes } in files() {
        assert!(agents.insert(agent.clone()), "{agent} has two files");
        assert!(detect.as_ref().is_none_or(positive), "{agent}: detect catches all");
        let mains = scenes.iter().filter(|rule| rule.says == Says::Scene(Scene::Main));
        assert!(mains.count() > 0, "{agent}: no rule knows its main loop");
        for rule in &scenes {
            assert!(names.insert(rule.name.clone()), "{} stands in two files", rule.name);
            assert!(positive(&rule.when), "{}: a catch-all", rule.name);
            assert!(rule.agents.is_empty(), "{}: the file says whose rule it is", rule.name);
            let scene = match rule.says {
                Says::Scene(scene) => scene,
                Says::Off => panic!("{}: a shipped rule that is off", rule.name),
            };
            assert_ne!(scene, Scene::Unknown, "{}: unknown is what no rule holds for", rule.name);
        }
    }
}

#[test]
fn an_agent_with_a_file_is_unknown_where_nothing_holds() {
    for File { agent, .. } in files() {
        let set = SceneSet::for_session(Some(&agent.to_uppercase()), &[], &[]).unwrap();
        // Neither headers nor instructions nor tools: no agent asks so.
        let verdict = Case::new(&[(Role::User, "\u{1}")]).verdict(&set);
        assert_eq!(verdict, (Scene::Unknown, "none".to_owned()), "{agent}");
    }
}
