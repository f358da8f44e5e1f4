//! Twelve turns: closed thinking in each, a person in the middle, a secret that the agent masks in its
//! own earlier call, and a compaction after which it goes on from a summary.

use rollgate_pipeline::sample::Sample;
use rollgate_tests::chat::Chat;
use rollgate_tests::proxy::Call;
use rollgate_tests::samples;
use serde_json::{Value, json};

use crate::exact::{
    cached_exactly, confirmed, first_prompt_is_the_engines, full_render, ids_are_the_engines,
    prompt, same_outside_sampled_text,
};
use crate::pieces::Piece::{self, Free, Id, Text};
use crate::pieces::{IM_END, THINK, THINK_END, TOOL_CALL, TOOL_CALL_END, forced};
use crate::{MAX_TOKENS, Stand};

const SECRET: &str = "sk-4f9aQ27LmX0bT5";
const SUMMARY: &str = "The house and the garden were tidied, and the key lies in key.txt.";

/// Plays and checks them.
pub fn run(stand: &Stand) {
    let session = stand.gate.create(&json!({"sampling": {
        "temperature": 1.0,
        "max_tokens": MAX_TOKENS,
        "seed": 12,
        "extra": {"extra_args": {"force": forced(&stand.engine.url, &answers())}},
    }}));
    let mut sent = Vec::new();
    let mut chat = Chat::new(&session, &[("system", &system()), ("user", "Tidy the house.")]);
    main_line(&mut chat, &mut sent);
    let mut compaction = chat.in_scene("compaction");
    compaction.user("Summarise what was done, in one sentence.");
    turn(&mut compaction, &mut sent);
    let told = format!("What was done so far: {SUMMARY} Go on.");
    let mut after = Chat::new(&session, &[("system", &system()), ("user", &told)]);
    for _ in 0..3 {
        turn(&mut after, &mut sent);
    }

    let calls: Vec<Call> = stand.calls();
    assert_eq!(calls.len(), 12, "one call of the engine per turn");
    let engine = &stand.engine;
    first_prompt_is_the_engines(&engine.url, &sent[0], &calls[0]);
    first_prompt_is_the_engines(&engine.url, &sent[9], &calls[9]);
    for (messages, call) in sent.iter().zip(&calls) {
        same_outside_sampled_text(&full_render(&engine.url, messages), &prompt(call));
    }
    cached_exactly(&calls, 40);

    stand.gate.close(&session);
    let samples = samples::parse(&stand.gate.samples(&session));
    assert_eq!(samples.len(), 2, "before the compaction and after it");
    ids_are_the_engines(&samples[0], &calls[..9]);
    ids_are_the_engines(&samples[1], &calls[9..]);
    masked_and_linked(&samples);
    for (name, sample) in [("before.jsonl", &samples[0]), ("after.jsonl", &samples[1])] {
        confirmed(stand.directory.path(), engine, name, sample);
    }
}

fn system() -> String {
    "A house is in your care. ".to_owned() + &"Look twice before you touch a thing. ".repeat(50)
}

/// Nine answers. Those after the compaction begin from the first again: they are chosen by how many
/// answers the prompt has.
fn answers() -> Vec<Vec<Piece<'static>>> {
    let thought = |text: &'static str| {
        vec![Id(THINK), Text("\n"), Text(text), Text("\n"), Id(THINK_END), Text("\n\n")]
    };
    let call = |command: &'static str| {
        let (open, close) = ("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"", "\"}}\n");
        vec![Id(TOOL_CALL), Text(open), Text(command), Text(close), Id(TOOL_CALL_END)]
    };
    let answer = |parts: Vec<Vec<Piece<'static>>>| {
        parts.into_iter().flatten().chain([Id(IM_END)]).collect::<Vec<_>>()
    };
    vec![
        answer(vec![thought("First the key."), call("cat key.txt")]),
        answer(vec![thought("Log in."), call(concat!("login ", "sk-4f9aQ27LmX0bT5"))]),
        answer(vec![thought("Two rooms."), call("ls a"), vec![Text("\n")], call("ls b")]),
        answer(vec![thought("Sweep."), call("swe"), call("ep")]),
        answer(vec![thought("Done."), vec![Text("The house is ti"), Text("dy.")]]),
        answer(vec![thought("Now the garden."), call("rake")]),
        answer(vec![thought("Water."), vec![Free(4)], call("water")]),
        answer(vec![thought("Done."), vec![Text("The garden is done.")]]),
        answer(vec![thought("Be brief."), vec![Text(SUMMARY)]]),
    ]
}

/// Eight turns; a person speaks after the fifth, and from then on the agent shows its earlier login
/// without the secret.
fn main_line(chat: &mut Chat, sent: &mut Vec<Chat>) {
    for at in 0..8 {
        turn(chat, sent);
        if at == 4 {
            chat.user("Now the garden.");
            mask(&mut chat.messages);
        }
    }
}

/// One turn, and results for its calls.
fn turn(chat: &mut Chat, sent: &mut Vec<Chat>) {
    sent.push(chat.clone());
    let answer = chat.turn();
    if !answer.calls().is_empty() {
        chat.results(&answer, &"a line of what was found. ".repeat(20));
    }
}

fn mask(messages: &mut [Value]) {
    let mut masked = 0;
    for message in messages {
        let Some(calls) = message["tool_calls"].as_array_mut() else { continue };
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
            masked += usize::from(arguments.contains(SECRET));
            call["function"]["arguments"] = arguments.replace(SECRET, "***").into();
        }
    }
    assert_eq!(masked, 1, "one call holds the secret");
}

fn masked_and_linked(samples: &[Sample]) {
    let span = &samples[0].turns[5];
    assert!(span.rule.is_some(), "the turn after the masking says which rule joined it: {span:?}");
    assert!(samples[0].counts["context_diff_tokens"] > 0, "{:?}", samples[0].counts);
    let links = serde_json::to_value(&samples[1].links).unwrap();
    let compacts = |turn: Value| {
        let link = json!({
            "kind": "compacts",
            "to": {"session_id": samples[0].session_id, "segment": 0, "turn": turn},
        });
        links.as_array().unwrap().contains(&link)
    };
    assert!(compacts(7.into()) && compacts(8.into()), "the leaf before, and the summary: {links}");
}
