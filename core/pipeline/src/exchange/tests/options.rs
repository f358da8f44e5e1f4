//! What sessions may set: history, retention, rules; what a node sets for them.

use super::*;
use crate::record::{HistoryMode, Retention};
use crate::render::TemplateClass;
use crate::rules::Rule;

fn rule(form: Value) -> Rule {
    serde_json::from_value(form).unwrap()
}

fn of_class(class: TemplateClass) -> Gatehouse {
    let mut model = test_model();
    model.class = class;
    Gatehouse { model: Arc::new(model), ..Play::gatehouse() }
}

/// A question, a call with its result, another question, a result again.
fn conversation() -> [Value; 4] {
    let call = |id: &str| {
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let user = |text: &str| json!({"role": "user", "content": text});
    let mut messages = vec![user("q")];
    let first = chat(json!(messages));
    messages.extend([call("c1"), result("c1")]);
    let second = chat(json!(messages));
    messages.extend([json!({"role": "assistant", "content": "a"}), user("next")]);
    let third = chat(json!(messages));
    messages.extend([call("c2"), result("c2")]);
    [first, second, third, chat(json!(messages))]
}

/// Parents and reasons of the conversation's turns.
fn course(mut play: Play) -> Vec<(Option<u32>, Option<String>)> {
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>";
    let answers = [call, "a<|im_end|>", call, "b<|im_end|>"];
    for (mut request, answer) in conversation().into_iter().zip(answers) {
        request["tools"] =
            json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
        let seen = play.ask(&request, answer);
        assert_eq!(seen.status, 200, "{}", seen.body);
        let turn = play.turns().pop().unwrap();
        if turn.parent.is_none() {
            assert_eq!(seen.prompt, turn.stretch);
        }
    }
    play.turns().into_iter().map(|turn| (turn.parent.map(|t| t.0), turn.anew)).collect()
}

fn anew(reason: &str) -> (Option<u32>, Option<String>) {
    (None, Some(reason.to_owned()))
}

#[test]
fn retention_decides_whether_a_person_begins_a_new_segment() {
    let class = TemplateClass::AppendOnlyInToolCycle;
    let keep = course(Play::at(of_class(class), SessionOptions::default()));
    assert_eq!(keep, [(None, None), (Some(0), None), (Some(1), None), (Some(2), None)]);
    let follows = [
        SessionOptions { retention: Some(Retention::Template), ..SessionOptions::default() },
        SessionOptions { history: Some(HistoryMode::Faithful), ..SessionOptions::default() },
    ];
    for options in follows {
        let template = course(Play::at(of_class(class), options));
        let expected = [(None, None), (Some(0), None), anew("template"), (Some(2), None)];
        assert_eq!(template, expected, "what follows extends the turn that was rendered anew");
    }
    let append_only = SessionOptions { retention: Some(Retention::Template), ..Default::default() };
    let same = course(Play::at(of_class(TemplateClass::AppendOnly), append_only));
    assert_eq!(same, keep, "where the template changes nothing, nothing is rendered anew");
}

#[test]
fn a_template_that_rewrites_history_makes_every_turn_a_segment() {
    let found = course(Play::at(of_class(TemplateClass::RewritesHistory), Default::default()));
    assert_eq!(found, [(None, None), anew("rewrites"), anew("rewrites"), anew("rewrites")]);
}

#[test]
fn the_nodes_defaults_are_settled_when_a_session_opens() {
    let rule = rule(json!({"name": "r", "action": "strip", "pattern": "x"}));
    let mut gatehouse = Play::gatehouse();
    gatehouse.sessions = SessionDefaults {
        history: HistoryMode::Faithful,
        retention: Retention::Template,
        rules: vec![rule.clone()],
        ..SessionDefaults::default()
    };
    let id = || SessionId::new("n1", SessionHash(1));
    let opened = gatehouse.open(id(), SessionOptions::default(), 0);
    assert_eq!(opened.options.history, Some(HistoryMode::Faithful));
    assert_eq!(opened.options.retention, Some(Retention::Template));
    assert_eq!(opened.node_rules, [rule]);
    let own = SessionOptions { history: Some(HistoryMode::Sticky), ..SessionOptions::default() };
    assert_eq!(gatehouse.open(id(), own, 0).options.history, Some(HistoryMode::Sticky));
}

/// The fault of opening a session with this rule.
fn refused(form: Value) -> Option<Fault> {
    let options = SessionOptions { rules: vec![rule(form)], ..SessionOptions::default() };
    let opened = Play::gatehouse().open(SessionId::new("n1", SessionHash(1)), options, 0);
    Session::open(opened).err().map(|error| error.fault())
}

#[test]
fn rules_that_cannot_be_used_do_not_open_a_session() {
    let nameless = refused(json!({"name": "", "action": "strip", "pattern": "x"})).unwrap();
    assert_eq!(nameless.kind, FaultKind::BadRequest);
    assert!(nameless.message.contains("has no name"), "{nameless}");
    let broken = refused(json!({"name": "mine", "action": "strip", "pattern": "("})).unwrap();
    assert_eq!(broken.kind, FaultKind::BadRequest);
    assert!(broken.message.contains("\"mine\""), "{broken}");
    assert_eq!(refused(json!({"name": "mine", "action": "strip", "pattern": "x"})), None);
}

#[test]
fn a_session_loads_whatever_the_shipped_rules_are_called_by_now() {
    let scene = json!({"name": "of-old", "scene": "off"});
    let rules = vec![rule(json!({"name": "of-old", "action": "off"}))];
    let scenes = vec![serde_json::from_value(scene).unwrap()];
    for (rules, scenes) in [(rules, vec![]), (vec![], scenes)] {
        let options = SessionOptions { rules, scenes, ..SessionOptions::default() };
        let opened = Play::gatehouse().open(SessionId::new("n1", SessionHash(1)), options, 0);
        let refused = Session::open(opened.clone()).err().unwrap().fault();
        assert_eq!(refused.kind, FaultKind::BadRequest);
        assert!(refused.message.contains("\"of-old\""), "{refused}");
        Session::replay(vec![Record::Opened(Box::new(opened))]).unwrap();
    }
}

#[test]
fn a_session_knows_its_agent_from_its_main_loop_and_knows_it_again() {
    let mut play = Play::new(SessionOptions::default());
    let soul = "You are Hermes.\n\nConversation started: Sunday\nModel: m\nProvider: custom";
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let mut main = chat(json!([said("system", soul), said("user", "q")]));
    main["tools"] = json!([{"type": "function", "function": {"name": "terminal"}}]);
    let side = |text| chat(json!([said("system", "You judge commands."), said("user", text)]));
    play.ask(&side("ls"), "a<|im_end|>");
    play.ask(&main, "b<|im_end|>");
    play.ask(&side("rm"), "c<|im_end|>");
    play.session = Session::replay(play.records()).unwrap();
    play.ask(&side("mv"), "d<|im_end|>");
    let turns = play.turns();
    let rules: Vec<&str> = turns.iter().map(|turn| turn.verdict.rule.as_str()).collect();
    assert_eq!(rules, ["default-main", "hermes-main", "none", "none"]);
}

#[test]
fn rules_strip_before_all_else_and_overlays_are_counted() {
    let rules = vec![
        rule(json!({"name": "banner", "action": "strip", "pattern": "BANNER [0-9]+"})),
        rule(json!({"name": "note", "action": "overlay", "pattern": "^note:", "whole": true})),
    ];
    let mut play = Play::new(SessionOptions { rules, ..SessionOptions::default() });
    let user = |text: &str| json!({"role": "user", "content": text});
    let answer = json!({"role": "assistant", "content": "a"});
    let first = play.ask(&chat(json!([user("q BANNER 1"), user("note: one")])), "a<|im_end|>");
    let shown = "<|im_start|>user\nq <|im_end|>\n<|im_start|>user\nnote: one<|im_end|>\n";
    let shown = play.ids(&format!("{shown}<|im_start|>assistant\n"));
    assert_eq!(first.prompt, shown);
    let rest = [user("q BANNER 2"), answer, user("r"), user("note: two")];
    play.ask(&chat(json!(rest)), "b<|im_end|>");
    let turns = play.turns();
    assert_eq!(turns[0].overlay_tokens as usize, play.ids("note: one").len());
    assert_eq!(turns[1].overlay_tokens as usize, play.ids("note: two").len());
    assert_eq!(turns[1].parent, Some(turns[0].turn), "{:?}", turns[1].messages);
}
