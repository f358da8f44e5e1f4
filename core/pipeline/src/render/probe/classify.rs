//! A template's class: what it does to earlier turns when messages are added.
//!
//! The test is whether the text of a conversation, up to and including an answer with its
//! reasoning, is the beginning of the text of a longer one, and whether the reasoning is still in
//! it. Blocks of reasoning with nothing in them are left out of the comparison: some templates
//! write one for the last turn only, and what was sampled stands there anyway.

use serde_json::Value;

use super::talk::{ANSWER, REASONING, answer, in_short, result, system, tool, user};
use super::{note, render};
use crate::render::Model;
use crate::render::class::{Counterexample, Rewriters, TemplateClass};
use crate::render::renderer::Renderer;
use crate::turn::{Message, Tool};

/// Switches by which templates can be told to leave history as it was, and how.
const SWITCHES: [(&str, bool); 4] = [
    ("clear_thinking", false),
    ("preserve_thinking", true),
    ("truncate_history_thinking", false),
    ("drop_thinking", false),
];

/// A conversation up to an answer, and what is added.
struct Case {
    past: Vec<Message>,
    new: Vec<Message>,
}

/// What was found.
struct Verdict {
    class: TemplateClass,
    counterexample: Option<Counterexample>,
    refused: Vec<String>,
}

/// Classifies, with the switches that help switched on.
pub(super) fn run(model: &mut Model) -> Result<(), String> {
    let mut best = judge(model);
    for (name, value) in SWITCHES {
        if best.class == TemplateClass::AppendOnly || !model.renderer.mentions(name) {
            continue;
        }
        model.constants.switches.insert(name.to_owned(), Value::from(value));
        let verdict = judge(model);
        if verdict.class < best.class {
            best = verdict;
        } else {
            model.constants.switches.remove(name);
        }
    }
    for text in best.refused {
        note(model, text);
    }
    model.class = best.class;
    model.counterexample = best.counterexample;
    if model.class == TemplateClass::AppendOnlyInToolCycle {
        model.rewriters = rewriters(model);
    }
    Ok(())
}

fn judge(model: &Model) -> Verdict {
    let mut verdict =
        Verdict { class: TemplateClass::AppendOnly, counterexample: None, refused: Vec::new() };
    let mut in_cycle = 0;
    for tools in [&[][..], &[tool("f"), tool("g")][..]] {
        for case in cycles(model) {
            match changed(model, &case, tools) {
                Ok(None) => in_cycle += 1,
                Ok(found) => {
                    return Verdict {
                        class: TemplateClass::RewritesHistory,
                        counterexample: found,
                        ..verdict
                    };
                }
                Err(reason) => verdict.refused.push(reason),
            }
        }
    }
    for tools in [&[][..], &[tool("f"), tool("g")][..]] {
        for case in turns(model) {
            match changed(model, &case, tools) {
                Ok(None) => {}
                Ok(found) => {
                    let class = match in_cycle {
                        0 => TemplateClass::RewritesHistory,
                        _ => TemplateClass::AppendOnlyInToolCycle,
                    };
                    return Verdict { class, counterexample: found, ..verdict };
                }
                Err(reason) => verdict.refused.push(reason),
            }
        }
    }
    verdict
}

/// Text beside a call, which some templates do not write together.
fn beside(model: &Model) -> &'static str {
    if model.constants.forms.null_content { "" } else { ANSWER }
}

/// Conversations up to an answer with calls.
fn calling(model: &Model) -> Vec<(Vec<Message>, &'static [&'static str])> {
    let text = beside(model);
    vec![
        (vec![user("a"), answer(text, "", &["call00001"])], &["call00001"]),
        (vec![user("a"), answer(text, REASONING, &["call00001"])], &["call00001"]),
        (
            vec![
                system("s"),
                user("a"),
                answer("", "first thought", &["call00001"]),
                result("call00001"),
                answer(text, REASONING, &["call00002"]),
            ],
            &["call00002"],
        ),
        (
            vec![
                system("s"),
                user("a"),
                answer("well", "first thought", &[]),
                user("b"),
                answer(text, REASONING, &["call00001"]),
            ],
            &["call00001"],
        ),
        (
            vec![user("a"), answer(text, REASONING, &["call00001", "call00002"])],
            &["call00001", "call00002"],
        ),
    ]
}

/// Only tool results are added.
fn cycles(model: &Model) -> Vec<Case> {
    let case = |(past, ids): (Vec<Message>, &[&str])| Case {
        past,
        new: ids.iter().map(|id| result(id)).collect(),
    };
    calling(model).into_iter().map(case).collect()
}

/// A user message is added.
fn turns(model: &Model) -> Vec<Case> {
    let ask = || vec![user("go on")];
    let several = |last: Message| {
        vec![system("s"), user("a"), answer("well", "first thought", &[]), user("b"), last]
    };
    let mut cases = vec![
        Case { past: vec![user("a"), answer(ANSWER, "", &[])], new: ask() },
        Case { past: several(answer(ANSWER, "", &[])), new: ask() },
        Case { past: several(answer(ANSWER, "", &[])), new: vec![system("brief"), user("go on")] },
    ];
    let results = |ids: &[&str]| ids.iter().map(|id| result(id)).chain(ask()).collect();
    cases.extend(calling(model).into_iter().map(|(past, ids)| Case { past, new: results(ids) }));
    cases.push(Case { past: vec![user("a"), answer(ANSWER, REASONING, &[])], new: ask() });
    cases.push(Case { past: several(answer(ANSWER, REASONING, &[])), new: ask() });
    cases
}

/// How the longer conversation changes the shorter one, if it does; `Err` where the template
/// refuses one of them.
fn changed(model: &Model, case: &Case, tools: &[Tool]) -> Result<Option<Counterexample>, String> {
    let mut all = case.past.clone();
    all.extend(case.new.iter().cloned());
    let refused = |messages: &[Message]| {
        let messages = in_short(messages);
        move |reason: String| format!("refused: {messages} ({reason})")
    };
    let short = render(model, &case.past, tools, false).map_err(refused(&case.past))?;
    let long = render(model, &all, tools, true).map_err(refused(&all))?;
    let (short, long) = (without_empty_reasoning(&short), without_empty_reasoning(&long));
    // Some templates write the beginning of an answer whether or not one is asked for.
    let turn = model.turn_end.after(&short, ANSWER).and_then(|end| short.get(..end));
    let begins = long.starts_with(&short) || turn.is_some_and(|turn| long.starts_with(turn));
    let messages = format!("{}; then: {}", in_short(&case.past), in_short(&case.new));
    if !begins {
        let what = "the conversation so far is not the beginning of the longer one";
        return Ok(Some(Counterexample::between(messages, what, &short, &long)));
    }
    let thought = case.past.last().and_then(|last| last.reasoning.as_deref());
    let lost = thought.filter(|thought| model.thinks() && !long.contains(*thought));
    Ok(lost.map(|thought| {
        let at = long.find(ANSWER).unwrap_or(long.len());
        let got: String = long[..at].chars().rev().take(60).collect();
        Counterexample {
            messages,
            what: "reasoning that was sampled is not written in history".to_owned(),
            expected: thought.to_owned(),
            got: got.chars().rev().collect(),
        }
    }))
}

/// A text without reasoning blocks that hold nothing.
fn without_empty_reasoning(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("<think>") {
        out.push_str(before);
        match inside.trim_start().strip_prefix("</think>") {
            Some(behind) => rest = behind.trim_start_matches('\n'),
            None => {
                out.push_str("<think>");
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Which messages change earlier turns, of a template that some do.
fn rewriters(model: &Model) -> Rewriters {
    let past = || {
        vec![
            user("a"),
            answer(beside(model), "first thought", &["call00001"]),
            result("call00001"),
            answer(ANSWER, REASONING, &[]),
        ]
    };
    let rewrites = |message: Message| {
        let case = Case { past: past(), new: vec![message] };
        [&[][..], &[tool("f")][..]]
            .iter()
            .any(|tools| !matches!(changed(model, &case, tools), Ok(None)))
    };
    Rewriters {
        user: true,
        result_as_user: rewrites(user("<tool_response>\nx\n</tool_response>")),
        instructions: rewrites(system("brief")),
    }
}

impl Renderer {
    /// Whether the template speaks of this name.
    fn mentions(&self, name: &str) -> bool {
        match self {
            Renderer::Template(template) => template.source().contains(name),
            Renderer::Harmony => false,
        }
    }
}

impl Model {
    /// Whether answers have reasoning: the template knows it, and the prompt does not end it.
    fn thinks(&self) -> bool {
        let known = ["think", "THINK", "reasoning"].iter().any(|word| self.renderer.mentions(word))
            || matches!(self.renderer, Renderer::Harmony);
        let prompt = render(self, &[user("a")], &[], true).unwrap_or_default();
        let ended = prompt.rsplit_once("think>").is_some_and(|(before, _)| before.ends_with('/'));
        known && !ended
    }
}
