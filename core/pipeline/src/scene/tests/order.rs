//! Which rule decides, and what rules are refused.

use super::*;

const SESSION: &str = r#"
[[scenes]]
name = "title"
scene = "title"
when = { last_user = "title" }
[[scenes]]
name = "theirs"
scene = "topic"
agents = ["forge"]
when = { last_user = "topic" }
"#;

const NODE: &str = r#"
[[scenes]]
name = "title"
scene = "summary"
when = { last_user = "title|summary" }
[[scenes]]
name = "loop"
scene = "main"
when = { min_tools = 1 }
"#;

fn set(agent: Option<&str>, node: &str, own: &str) -> Result<SceneSet, SceneError> {
    SceneSet::for_session(agent, &rules(node), &rules(own))
}

#[track_caller]
fn check(set: &SceneSet, case: &Case, scene: Scene, rule: &str) {
    assert_eq!(case.verdict(set), (scene, rule.to_owned()));
}

fn says(text: &str) -> Case {
    Case::new(&[(Role::User, text)])
}

#[test]
fn the_url_comes_first_then_the_session_then_the_node() {
    let set = set(Some("forge"), NODE, SESSION).unwrap();
    let entry = says("a title").with(|case| case.entry = Some(Scene::Probe));
    check(&set, &entry, Scene::Probe, "entry-url");
    check(&set, &says("a title"), Scene::Title, "title");
    check(&set, &says("a topic").tools(&["bash"]), Scene::Topic, "theirs");
    check(&set, &says("go on").tools(&["bash"]), Scene::Main, "loop");
    // The node's rule of that name is not asked.
    check(&set, &says("a summary"), Scene::Unknown, "none");
}

#[test]
fn rules_for_other_agents_neither_hold_nor_hide() {
    let other = set(Some("anvil"), NODE, &SESSION.replace("\"title\"\nscene", "\"loop\"\nscene"));
    check(&other.unwrap(), &says("a topic").tools(&["bash"]), Scene::Unknown, "none");
    let theirs = "[[scenes]]\nname = \"loop\"\nscene = \"off\"\nagents = [\"FORGE\"]\n";
    let case = says("go on").tools(&["bash"]);
    check(&set(Some("anvil"), NODE, theirs).unwrap(), &case, Scene::Main, "loop");
    check(&set(Some("forge"), NODE, theirs).unwrap(), &case, Scene::Unknown, "none");
    check(&set(None, NODE, theirs).unwrap(), &case, Scene::Main, "loop");
}

#[test]
fn off_takes_out_the_farther_rules_of_its_name() {
    let off = "[[scenes]]\nname = \"title\"\nscene = \"off\"\n";
    let set = set(None, NODE, off).unwrap();
    check(&set, &says("a title"), Scene::Unknown, "none");
    check(&set, &says("a title").tools(&["bash"]), Scene::Main, "loop");
}

#[test]
fn what_nobody_described_is_main_and_what_does_not_fit_is_unknown() {
    check(&SceneSet::default(), &says("anything"), Scene::Main, "default-main");
    let set = set(Some("forge"), "scenes = []", SESSION).unwrap();
    // Rules that only single out side calls leave the rest to the main loop.
    check(&set, &says("anything"), Scene::Main, "default-main");
    check(&set, &says("a title"), Scene::Title, "title");
}

#[test]
fn errors_name_rule_and_key() {
    for (rule, key, parts) in [
        (
            r#"scene = "title", when = { system = "(" }"#,
            Some("system"),
            &["`system`", "unclosed"][..],
        ),
        (
            r#"scene = "title", when = { header = { X-Kind = "a{9999}{9999}" } }"#,
            Some("header.X-Kind"),
            &["`header.X-Kind`", "size limit"],
        ),
        (
            r#"scene = "title", when = { min_tools = 2, max_tools = 1 }"#,
            Some("min_tools"),
            &["never"],
        ),
        (r#"scene = "title", when = { tool = ["a"], no_tool = ["a"] }"#, Some("tool"), &["never"]),
        (r#"scene = "off""#, None, &["there are:"]),
    ] {
        let text = format!("scenes = [{{ name = \"bad\", {rule} }}]");
        let error = set(None, "scenes = []", &text).unwrap_err();
        assert_eq!(error.key(), key, "{error}");
        let message = error.to_string();
        assert!(message.contains("\"bad\""), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let twice = format!("{SESSION}{SESSION}");
    assert!(set(None, "scenes = []", &twice).unwrap_err().to_string().contains("twice"));
    let nameless = "scenes = [{ name = \"\", scene = \"title\" }]";
    assert_eq!(set(None, nameless, "scenes = []").unwrap_err().key(), Some("name"));
}

#[test]
fn rules_are_the_same_after_a_journal() {
    let before = rules(&format!("{SESSION}[[scenes]]\nname = \"x\"\nscene = \"off\"\n"));
    let text = serde_json::to_string(&before).unwrap();
    assert!(text.contains(r#"{"name":"x","scene":"off","when":{}}"#), "{text}");
    assert_eq!(serde_json::from_str::<Vec<SceneRule>>(&text).unwrap(), before);
    let typo = serde_json::from_str::<SceneRule>(r#"{"name":"x","scene":"mian"}"#);
    assert!(typo.unwrap_err().to_string().contains("unknown variant `mian`"));
    let typo =
        serde_json::from_str::<SceneRule>(r#"{"name":"x","scene":"main","when":{"tols":1}}"#);
    assert!(typo.unwrap_err().to_string().contains("unknown field `tols`"));
}
