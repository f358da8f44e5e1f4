//! What comes again is not searched again. That the verdicts are the same, every other test of this
//! room checks, too.

use super::*;
use crate::limits::{RECALLED_INSTRUCTIONS, RECALLED_TEXTS};

fn set() -> SceneSet {
    let text = r#"
        [[scenes]]
        name = "first"
        scene = "title"
        when = { first_user = "^never$" }
        [[scenes]]
        name = "system"
        scene = "title"
        when = { system = "^never$", no_system = "^ever$" }
        [[scenes]]
        name = "main"
        scene = "main"
        when = { tool = ["f"], no_last_user = "end", skip_user = "^note", last = "result" }
    "#;
    SceneSet::for_session(Some("none"), &[], &rules(text)).unwrap()
}

/// The verdict's rule, and how often a text was searched for it.
fn ask(set: &SceneSet, recall: &Recall, case: &Case) -> (String, usize) {
    let (before, messages) = (recall.searches(), &case.asked.messages);
    let users: Vec<usize> =
        (0..messages.len()).filter(|at| messages[*at].role == Role::User).collect();
    let system = recall.instructions(messages);
    let evidence = Evidence {
        entry: None,
        headers: &[],
        dialect: case.dialect,
        asked: &case.asked,
        system: system.text(),
        continues: false,
        detected: None,
    };
    let rule = set.classify_again(&evidence, recall, &users).rule;
    assert_eq!(rule, set.classify(&evidence).rule);
    (rule, recall.searches() - before)
}

#[test]
fn an_appended_turn_is_searched_for_what_is_new() {
    let (set, recall) = (set(), Recall::default());
    let mut case = Case::new(&[
        (Role::System, "one"),
        (Role::Developer, "two"),
        (Role::User, "go"),
        (Role::User, "note"),
        (Role::Tool, "result 0"),
    ])
    .tools(&["f"]);
    // Of the first user's words two, of the note one, of the last word one, of the instructions one.
    assert_eq!(ask(&set, &recall, &case), ("main".to_owned(), 6));
    for turn in 1..20 {
        let said = [
            Message::text(Role::Assistant, "a"),
            Message::text(Role::Tool, format!("result {turn}")),
        ];
        case.asked.messages.extend(said);
        assert_eq!(ask(&set, &recall, &case), ("main".to_owned(), 1), "the last word");
        assert_eq!(ask(&set, &recall, &case), ("main".to_owned(), 0));
        // Equal texts in other handles are known, too.
        let anew = case.asked.messages.iter().map(|m| m.clone().into_fields().into());
        case.asked.messages = anew.collect();
        assert_eq!(ask(&set, &recall, &case), ("main".to_owned(), 0));
        let (messages, instructions) = recall.held();
        assert!(messages <= RECALLED_TEXTS && instructions <= RECALLED_INSTRUCTIONS);
    }
    // Another last word, other instructions, other tools: nothing stale is said.
    case.asked.messages.push(Message::text(Role::Tool, "else"));
    assert_eq!(ask(&set, &recall, &case), ("none".to_owned(), 1));
    case.asked.messages.pop();
    case.asked.messages[0] = Message::text(Role::System, "never");
    assert_eq!(ask(&set, &recall, &case), ("main".to_owned(), 1));
    case.asked.messages.remove(1);
    assert_eq!(ask(&set, &recall, &case), ("system".to_owned(), 2));
    case = case.tools(&["g"]);
    case.asked.messages[0] = Message::text(Role::System, "one");
    assert_eq!(ask(&set, &recall, &case).0, "none");
}
