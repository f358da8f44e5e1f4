//! Which form of the details a template wants.

use super::talk::{NEXT, answer, result, user};
use super::{note, render};
use crate::render::conversation::Forms;
use crate::render::{Family, Model};
use crate::turn::{Message, Role};

/// Finds out all of them.
pub(super) fn find(model: &mut Model) {
    developer(model);
    ids(model);
    calls(model);
    broken_arguments(model);
    instructions(model);
}

fn developer(model: &mut Model) {
    let messages = [Message::text(Role::Developer, NEXT), user("hello")];
    let known = render(model, &messages, &[], true).is_ok_and(|text| text.contains(NEXT));
    model.constants.forms.developer_is_system = !known;
}

/// A call with this id, answered.
fn called(content: &str, id: &str) -> Vec<Message> {
    vec![user("hello"), answer(content, "", &[id]), result(id)]
}

fn ids(model: &mut Model) {
    if model.family == Family::KimiK2 {
        model.constants.forms.function_ids = true;
        note(model, "ids of tool calls are rendered as functions.NAME:NUMBER".to_owned());
        return;
    }
    let long = render(model, &called("", "call_0123456789abcdef"), &[], true);
    let nine = render(model, &called("", "call00001"), &[], true);
    if let (Err(_), Ok(_)) = (&long, &nine) {
        model.constants.forms.nine_letter_ids = true;
        note(model, "ids of tool calls are rendered as nine letters and digits".to_owned());
    }
}

/// Content and arguments of a message with a call: the first form in which the call shows.
fn calls(model: &mut Model) {
    let found = model.constants.forms;
    let forms = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(null_content, text_arguments)| Forms { null_content, text_arguments, ..found });
    for form in forms {
        model.constants.forms = form;
        if render(model, &called("", "call00001"), &[], true).is_ok_and(|text| call_shows(&text)) {
            both(model);
            return;
        }
    }
    model.constants.forms = found;
    note(model, "tool calls are not written in history".to_owned());
}

/// Notes what is lost where an answer has text and a call.
fn both(model: &mut Model) {
    let mut messages = called("", "call00001");
    messages[1].content = "beside".to_owned();
    let Ok(text) = render(model, &messages, &[], true) else { return };
    if !call_shows(&text) {
        note(
            model,
            "calls of an answer with text beside them are not written in history".to_owned(),
        );
    } else if !text.contains("beside") {
        note(model, "text of an answer beside calls is not written in history".to_owned());
    }
}

/// Whether the call's arguments are there, neither in Python's spelling nor escaped twice.
fn call_shows(text: &str) -> bool {
    let shows = text.contains("word") && text.contains("probe");
    shows && !["'word'", r#"\"word\""#, "None"].iter().any(|wrong| text.contains(wrong))
}

fn broken_arguments(model: &mut Model) {
    let mut messages = called("", "call00001");
    messages[1].tool_calls[0].arguments = r#"{"q": "a"#.to_owned();
    if render(model, &messages, &[], true).is_ok() {
        return;
    }
    model.constants.forms.only_objects = true;
    if render(model, &messages, &[], true).is_ok() {
        let text = "arguments that are no JSON object are written as the only entry of one";
        note(model, text.to_owned());
    } else {
        model.constants.forms.only_objects = false;
    }
}

/// Instructions in the middle are wrapped where the template refuses them, leaves them out, or
/// moves them to the beginning.
fn instructions(model: &mut Model) {
    let messages =
        [user("hello"), answer("well", "", &[]), Message::text(Role::System, NEXT), user("go on")];
    let rendered = render(model, &messages, &[], true);
    let reason = match &rendered {
        Err(_) => "refused",
        Ok(text) => match (text.find("well"), text.find(NEXT)) {
            (Some(before), Some(at)) if before < at => return,
            (_, Some(_)) => "moved to the beginning",
            (_, None) => "left out",
        },
    };
    model.constants.forms.wraps_instructions = true;
    if render(model, &messages, &[], true).is_ok_and(|text| text.contains(NEXT)) {
        let text = format!(
            "a system message behind the beginning would be {reason}: it becomes a user message \
             in <system_instructions>"
        );
        note(model, text);
    } else {
        model.constants.forms.wraps_instructions = false;
        note(model, format!("a system message behind the beginning is {reason}"));
    }
}
