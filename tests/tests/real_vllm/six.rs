//! Six turns: thinking, calls, parallel calls, a stop, a length, and users between them.

use rollgate_tests::chat::Chat;
use rollgate_tests::gate::Session;
use rollgate_tests::proxy::Call;
use rollgate_tests::samples;
use serde_json::json;

use crate::exact::{
    cached_exactly, confirmed, first_prompt_is_the_engines, full_render, ids_are_the_engines,
    prompt, refuted, same_outside_sampled_text,
};
use crate::pieces::Piece::{self, Free, Id, Text};
use crate::pieces::{IM_END, THINK, THINK_END, TOOL_CALL, TOOL_CALL_END, forced};
use crate::{MAX_TOKENS, Stand};

/// More than an answer may have.
const LONG: &str = concat!(
    " and goes on and goes on and goes on and goes on and goes on and goes on and goes on",
    " and goes on and goes on and goes on and goes on and goes on and goes on and goes on",
    " and goes on and goes on and goes on and goes on and goes on and goes on and goes on",
);

/// Plays and checks them.
pub fn run(stand: &Stand) {
    let session = stand.gate.create(&json!({"sampling": {
        "temperature": 1.0,
        "max_tokens": MAX_TOKENS,
        // Prompts stay far below the size at which vLLM on CPU dies of a seed.
        "seed": 11,
        "extra": {"extra_args": {"force": forced(&stand.engine.url, &answers())}},
    }}));
    let conversations = converse(&session);
    let calls: Vec<Call> = stand.calls();
    assert_eq!(calls.len(), 6, "one call of the engine per turn");
    let engine = &stand.engine;
    first_prompt_is_the_engines(&engine.url, &conversations[0], &calls[0]);
    for (messages, call) in conversations.iter().zip(&calls).skip(1) {
        same_outside_sampled_text(&full_render(&engine.url, messages), &prompt(call));
    }
    cached_exactly(&calls, 20);

    stand.gate.close(&session);
    let samples = samples::parse(&stand.gate.samples(&session));
    assert_eq!(samples.len(), 1, "one branch, one sample");
    let sample = &samples[0];
    ids_are_the_engines(sample, &calls);
    let reasons: Vec<_> = sample.turns.iter().map(|span| span.finish_reason.as_str()).collect();
    assert_eq!(reasons, ["stop", "stop", "stop", "stop", "length", "stop"]);
    confirmed(stand.directory.path(), engine, "six.jsonl", sample);
    refuted(stand.directory.path(), engine, sample);
}

/// Six answers: three with tool calls (one of them two calls), a stop, a length, another call.
fn answers() -> Vec<Vec<Piece<'static>>> {
    vec![
        vec![
            Id(THINK),
            Text("\nI should look first.\n"),
            Id(THINK_END),
            Text("\n\n"),
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
        vec![
            // Random text, and a call in pieces that the tokenizer would not make.
            Free(6),
            Id(TOOL_CALL),
            Text("\n{\"name\": \"ba"),
            Text("sh\", \"argu"),
            Text("ments\": {\"command\": \"cat no"),
            Text("tes.txt\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
        vec![
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"wc a\"}}\n"),
            Id(TOOL_CALL_END),
            Text("\n"),
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"wc b\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
        vec![Text("All files are rea"), Text("d."), Id(IM_END)],
        vec![Text("A long story beg"), Text("ins with"), Free(8), Text(LONG)],
        vec![
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"true\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
    ]
}

/// The agent's six turns; what it sent each time.
fn converse(session: &Session) -> Vec<Chat> {
    let system =
        "You are a careful agent. ".to_owned() + &"Read every file before you answer. ".repeat(50);
    let mut chat = Chat::new(session, &[("system", &system), ("user", "What is in this folder?")]);
    let mut sent = Vec::new();
    let (mut calls, mut finishes) = (0, Vec::new());
    for turn in 0..6 {
        sent.push(chat.clone());
        let answer = chat.turn();
        calls += answer.calls().len();
        finishes.push(answer.finish.clone());
        match turn {
            0..3 => {
                chat.results(&answer, &format!("result {turn}: {}", "a line of text. ".repeat(25)))
            }
            3 => chat.user("Now tell me a story."),
            4 => chat.user("That will do. Check that all is well."),
            _ => {}
        }
    }
    let expected = ["tool_calls", "tool_calls", "tool_calls", "stop", "length", "tool_calls"];
    assert_eq!(finishes, expected);
    assert_eq!(calls, 5, "parsed tool calls");
    sent
}
