//! Templates that are hostile on purpose: what the probe makes of them, and what it says.

use super::*;

fn load(source: &str) -> Result<Model, ModelError> {
    Model::load(ModelFiles { template: Some(source.to_owned()), ..test_files() })
}

macro_rules! hostile {
    ($name:literal) => {
        load(include_str!(concat!("../../../tests/templates/hostile/", $name, ".jinja")))
    };
}

fn rewriting(model: Result<Model, ModelError>) -> Counterexample {
    let model = model.unwrap();
    assert_eq!(model.class, TemplateClass::RewritesHistory, "{:#?}", model.report());
    assert!(model.changes_past(&[]));
    model.counterexample.unwrap()
}

#[test]
fn what_renumbers_earlier_turns_is_named() {
    let found = rewriting(hostile!("numbers_turns"));
    assert!(found.expected.contains("user 2") && found.got.contains("user 3"), "{found:#?}");
    assert!(found.messages.contains("assistant (call); then: tool"), "{found:#?}");
}

#[test]
fn what_numbers_turns_from_the_beginning_is_not_continued() {
    let found = rewriting(hostile!("counts_turns"));
    assert!(found.what.contains("by themselves"), "{found:#?}");
    assert!(found.expected.contains("user 8") && found.got.contains("user 3"), "{found:#?}");
}

#[test]
fn what_drops_sampled_reasoning_is_named() {
    let found = rewriting(hostile!("drops_thinking"));
    assert!(found.what.contains("reasoning"), "{found:#?}");
}

#[test]
fn what_collects_results_elsewhere_is_named() {
    let found = rewriting(hostile!("merges_results"));
    assert!(found.got.contains("<tool_response>"), "{found:#?}");
}

#[test]
fn dates_are_an_input() {
    let model = hostile!("prints_dates").unwrap();
    assert_eq!(model.class, TemplateClass::AppendOnly, "{:#?}", model.report());
    let at = |now: i64| {
        let kwargs = Map::from_iter([("now".to_owned(), json!(now))]);
        text(&model, &model.first(&[user("a")], &[], &kwargs).unwrap())
    };
    assert!(at(1_751_068_860).contains("Today is 28 June 2025, 00:01."));
    assert_eq!(at(1_751_068_860), at(1_751_068_899), "the minute is pinned with the second");
    let fault = model.first(&[user("a")], &[], &Map::new()).unwrap_err();
    assert!(fault.message.contains("`now`"), "{fault}");
}

#[test]
fn refused_or_moved_instructions_are_wrapped_and_counted() {
    for (model, why) in
        [(hostile!("refuses_system"), "refused"), (hostile!("hoists_system"), "moved")]
    {
        let model = model.unwrap();
        assert_eq!(model.class, TemplateClass::AppendOnly, "{:#?}", model.report());
        assert!(model.notes.iter().any(|note| note.contains(why)), "{:?}", model.notes);
        let new = [Message::text(Role::System, "Be brief."), user("b")];
        assert_eq!(model.wrapped_instructions(&new), 1);
        let ids = model.stretch(closed(), &new, &[], &Map::new()).unwrap();
        let expected = "\n<|im_start|>user\n<system_instructions>\nBe brief.\n\
                        </system_instructions><|im_end|>\n<|im_start|>user\nb<|im_end|>\n\
                        <|im_start|>assistant\n";
        assert_eq!(text(&model, &ids), expected);
        let whole = first(&model, &[Message::text(Role::System, "s"), user("a")]);
        assert!(text(&model, &whole).starts_with("<|im_start|>system\ns<|im_end|>"));
    }
    assert_eq!(test_model().wrapped_instructions(&[Message::text(Role::System, "s")]), 0);
}

#[test]
fn what_leaves_out_answers_or_never_ends_them_is_refused() {
    let reason = hostile!("silent").err().unwrap().to_string();
    assert!(reason.contains("leaves out what the assistant said"), "{reason}");
    let reason = hostile!("plain_ends").err().unwrap().to_string();
    assert!(reason.contains("no added token ends"), "{reason}");
}

#[test]
fn only_a_served_class_is_continued() {
    for model in [hostile!("numbers_turns"), hostile!("drops_thinking")] {
        assert_eq!(check_bridges(&model.unwrap()), Ok(Compared::default()));
    }
    for model in [hostile!("prints_dates"), hostile!("refuses_system"), hostile!("hoists_system")] {
        let compared = check_bridges(&model.unwrap()).unwrap();
        assert!(compared.prompts > 10, "{compared:?}");
    }
}
