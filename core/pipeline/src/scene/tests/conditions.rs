//! Every condition, met and not met.

use serde_json::json;

use super::*;
use crate::turn::Purpose;

fn plain() -> Case {
    Case::new(&[
        (Role::System, "You are Forge."),
        (Role::Developer, "No network."),
        (Role::User, "Fix the order."),
        (Role::Assistant, "I look."),
        (Role::User, "Go on, please."),
        (Role::Tool, "exit status 0"),
    ])
}

/// Whether a rule with this `when` holds.
#[track_caller]
fn check(when: &str, case: &Case, expected: bool) {
    let text = format!("scenes = [{{ name = \"r\", scene = \"title\", when = {{ {when} }} }}]");
    let set = SceneSet::for_session(None, &[], &rules(&text)).unwrap();
    let holds = case.verdict(&set) == (Scene::Title, "r".to_owned());
    assert_eq!(holds, expected, "{when}");
}

#[test]
fn texts() {
    for (when, expected) in [
        (r#"system = "^You are Forge\\.\nNo network\\.$""#, true),
        (r#"system = "Fix""#, false),
        (r#"no_system = "network""#, false),
        (r#"no_system = "Fix""#, true),
        (r#"first_user = "^Fix""#, true),
        (r#"first_user = "Go on""#, false),
        (r#"no_first_user = "Go on""#, true),
        (r#"no_first_user = "order""#, false),
        (r#"last_user = "please\\.$""#, true),
        (r#"last_user = "order""#, false),
        (r#"no_last_user = "order""#, true),
        (r#"no_last_user = "please""#, false),
        (r#"skip_user = "please", last_user = "^Fix""#, true),
        (r#"skip_user = "please", last_user = "please""#, false),
        (r#"skip_user = "nowhere", last_user = "please""#, true),
        (r#"skip_user = ".", last_user = ".""#, false),
        (r#"last = "^exit""#, true),
        (r#"last = "please""#, false),
        (r#"model = "^some-""#, true),
        (r#"model = "^other-""#, false),
        (r#"system = "Forge", last = "nowhere""#, false),
        ("", true),
    ] {
        check(when, &plain(), expected);
    }
    // No text at all is an empty one.
    let none = Case::new(&[(Role::Assistant, "a")]);
    check(r#"system = "^$""#, &none, true);
    check(r#"first_user = ".""#, &none, false);
}

#[test]
fn structure() {
    for (when, expected) in [
        ("min_messages = 4", true),
        ("min_messages = 5", false),
        ("max_messages = 4", true),
        ("max_messages = 3", false),
        ("min_tools = 2", true),
        ("min_tools = 3", false),
        ("max_tools = 2", true),
        ("max_tools = 1", false),
        (r#"tool = ["bash", "read"]"#, true),
        (r#"tool = ["bash", "write"]"#, false),
        (r#"no_tool = ["write"]"#, true),
        (r#"no_tool = ["write", "read"]"#, false),
        (r#"dialect = "chat""#, true),
        (r#"dialect = "messages""#, false),
        ("stream = false", true),
        ("stream = true", false),
        ("continues = false", true),
        ("continues = true", false),
        ("compaction = false", true),
        ("compaction = true", false),
        ("max_tokens = 100", false),
        (r#"format = "isNew""#, false),
    ] {
        check(when, &plain().tools(&["bash", "read"]), expected);
    }
    let other = plain().with(|case| {
        case.continues = true;
        case.dialect = Dialect::Messages;
        case.asked.form = ReplyForm::Events { usage: false };
        case.asked.purpose = Purpose::Compaction;
        case.asked.sampling.max_tokens = Some(100);
        case.asked.format = Some(json!({"schema": {"properties": {"isNew": {}}}}));
    });
    for (when, expected) in [
        ("continues = true", true),
        (r#"dialect = "messages""#, true),
        ("stream = true", true),
        ("compaction = true", true),
        ("max_tokens = 100", true),
        ("max_tokens = 99", false),
        (r#"format = "\"isNew\"""#, true),
        (r#"format = "isOld""#, false),
    ] {
        check(when, &other, expected);
    }
}

#[test]
fn headers_are_sought_by_any_spelling_and_in_all_their_values() {
    let case = plain().header("x-purpose", "one").header("x-purpose", "two");
    for (when, expected) in [
        (r#"header = { x-purpose = "^two$" }"#, true),
        (r#"header = { X-Purpose = "^one$" }"#, true),
        (r#"header = { x-purpose = "three" }"#, false),
        (r#"header = { x-other = "" }"#, false),
        (r#"no_header = ["X-Purpose"]"#, false),
        (r#"no_header = ["x-other"]"#, true),
    ] {
        check(when, &case, expected);
    }
}

#[test]
fn instructions_are_put_together_only_for_rules_that_look_at_them() {
    let reads = |when: &str| {
        let text = format!("scenes = [{{ name = \"r\", scene = \"title\", when = {{ {when} }} }}]");
        // An agent of this name has no shipped rules.
        SceneSet::for_session(Some("forge"), &[], &rules(&text)).unwrap().reads_instructions()
    };
    assert!(reads(r#"system = "x""#) && reads(r#"no_system = "x""#));
    assert!(!reads(r#"first_user = "x", min_tools = 1"#));
}
