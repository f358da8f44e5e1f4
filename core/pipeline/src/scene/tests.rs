//! Rules: which of them decides, by what evidence, and what is wrong with them.

mod claude_code;
mod codex;
mod conditions;
mod detected;
mod hermes;
mod openclaw;
mod opencode;
mod order;
mod pi;
mod qwen_code;
mod recall;
mod shipped;

use super::*;
use crate::turn::ReplyForm;

/// An exchange to classify: what a test does not set is plain.
struct Case {
    entry: Option<Scene>,
    headers: Vec<Header>,
    dialect: Dialect,
    asked: Asked,
    continues: bool,
    detected: Option<&'static str>,
}

impl Case {
    fn new(messages: &[(Role, &str)]) -> Self {
        let messages = messages.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        let asked = Asked::plain("some-model".into(), messages, ReplyForm::Json);
        let (headers, dialect) = (Vec::new(), Dialect::Chat);
        Self { entry: None, headers, dialect, asked, continues: false, detected: None }
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push(Header { name: name.into(), value: value.into() });
        self
    }

    fn tools(mut self, names: &[&str]) -> Self {
        let tool =
            |name: &&str| serde_json::json!({"type": "function", "function": {"name": name}});
        self.asked.tools = names.iter().map(tool).collect::<Vec<_>>().into();
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Scene and rule.
    fn verdict(&self, set: &SceneSet) -> (Scene, String) {
        let system = match set.reads_instructions() {
            true => instructions(&self.asked.messages),
            false => String::new(),
        };
        let verdict = set.classify(&Evidence {
            entry: self.entry,
            headers: &self.headers,
            dialect: self.dialect,
            asked: &self.asked,
            system: &system,
            continues: self.continues,
            detected: self.detected,
        });
        (verdict.scene, verdict.rule)
    }
}

/// What each call is told to be, by a session that names its agent, by one that does not and has seen
/// its main loop, and by one that has seen nothing yet, where that can tell it at all.
#[track_caller]
fn check_calls(agent: &'static str, calls: Vec<(Case, Scene, &str)>) {
    for (mut case, scene, rule) in calls {
        for (named, detected) in [(Some(agent), None), (None, Some(agent)), (None, None)] {
            let set = SceneSet::for_session(named, &[], &[]).unwrap();
            case.detected = detected;
            let (said, by) = case.verdict(&set);
            if (named, detected, by.as_str()) == (None, None, "default-main") {
                assert_eq!(scene, Scene::Unknown, "{agent}, {rule}: not trained by mistake");
                continue;
            }
            assert_eq!((said, by.as_str()), (scene, rule), "{agent}, {named:?}, {detected:?}");
        }
    }
}

/// Rules as a configuration writes them.
fn rules(text: &str) -> Vec<SceneRule> {
    #[derive(Deserialize)]
    struct File {
        scenes: Vec<SceneRule>,
    }
    toml::from_str::<File>(text).unwrap().scenes
}

#[test]
fn names_round_trip() {
    for scene in Scene::ALL {
        assert_eq!(Scene::parse(scene.name()), Some(scene));
    }
    assert_eq!(Scene::parse("nonsense"), None);
}
