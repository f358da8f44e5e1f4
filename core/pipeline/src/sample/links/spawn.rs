//! Which turn's tool call started a subagent.

use serde_json::Value;

use super::text::{RUN, plain};
use crate::sample::branches::Session;
use crate::scene::Scene;
use crate::turn::Role;

/// A short text at the end of another must have at least so many characters.
const TAIL: usize = 8;

/// First turns of subagents, each with the turn that asked for it.
pub(super) fn links(session: &Session<'_>, skip: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let begun: Vec<usize> = (0..session.turns.len())
        .filter(|turn| session.scene(*turn) == Scene::Subagent && session.parent(*turn).is_none())
        .filter(|turn| !skip(*turn))
        .collect();
    if begun.is_empty() {
        return Vec::new();
    }
    let asked: Vec<Vec<String>> = session
        .turns
        .iter()
        .map(|turn| {
            let calls = turn.reply.tool_calls.iter();
            calls.flat_map(|call| strings(&call.arguments)).collect()
        })
        .collect();
    let asked_by = |turn: usize| {
        let said = first_words(session, turn);
        let fit = |at: usize| {
            let pairs =
                asked[at].iter().flat_map(|asked| said.iter().map(move |said| (asked, said)));
            pairs.map(|(asked, said)| fit(asked, said)).max().unwrap_or_default()
        };
        // The best fit; of equal ones, the newest.
        (0..turn).map(|at| (fit(at), at)).filter(|(fit, _)| *fit > 0).max()
    };
    begun.into_iter().filter_map(|turn| Some((turn, asked_by(turn)?.1))).collect()
}

/// What a subagent is told before it says anything.
fn first_words(session: &Session<'_>, turn: usize) -> Vec<String> {
    let messages = session.turns[turn].messages.iter();
    let before = messages.take_while(|message| message.role != Role::Assistant);
    let said = before.filter(|message| message.role == Role::User);
    said.map(|message| plain(&message.content)).filter(|text| !text.is_empty()).collect()
}

/// All texts in a call's arguments.
fn strings(arguments: &str) -> Vec<String> {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::String(text) => into.push(plain(text)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(members) => members.values().for_each(|member| collect(member, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    match serde_json::from_str(arguments) {
        Ok(value) => collect(&value, &mut found),
        Err(_) => found.push(plain(arguments)),
    }
    found.retain(|text| !text.is_empty());
    found
}

/// How well what was asked for fits what was said: 3, the same; 2, a long part of it; 1, a short one
/// at its end, where agents put the task behind their reminders; 0, not at all.
fn fit(asked: &str, said: &str) -> u8 {
    if asked == said {
        return 3;
    }
    let (short, long) = if asked.len() < said.len() { (asked, said) } else { (said, asked) };
    let length = short.chars().count();
    let at_the_end = || {
        let before = long.strip_suffix(short);
        before.is_some_and(|before| before.ends_with(|c: char| !c.is_alphanumeric()))
    };
    match length {
        RUN.. if long.contains(short) => 2,
        TAIL.. if at_the_end() => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_again_behind_reminders() {
        let task = "Count all files.";
        assert_eq!(fit(task, task), 3);
        assert_eq!(fit(task, &format!("<reminder>be brief</reminder> {task}")), 1);
        assert_eq!(fit(task, &format!("{task} But not now.")), 0);
        let long = "Count all files below the source folder, then list the ten largest.";
        assert_eq!(fit(long, &format!("{long} Begin.")), 2);
        assert_eq!(fit("general", "general"), 3);
        assert_eq!(fit("general", &format!("in general {long}")), 0);
        assert_eq!(fit("files.", &format!("{long} Count files.")), 0, "too short");
    }

    #[test]
    fn texts_of_arguments_are_found_at_any_depth() {
        let nested = r#"{"a": ["x\n y", {"b": "z"}], "n": 1, "e": ""}"#;
        assert_eq!(strings(nested), ["x y", "z"]);
        assert_eq!(strings("not {json"), ["not {json"]);
    }
}
