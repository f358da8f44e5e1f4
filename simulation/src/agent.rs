//! Simulated agents: conversations that grow, fork, are compacted, and are gone on with.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use rollgate_shards::sim::{chance, pick, sleep, spawn};
use serde_json::{Value, json};

use crate::stage::{SessionOf, Stage};
use crate::talk::Client;

/// One agent at work in a session, until it is done or loses its patience.
pub async fn work(stage: Rc<Stage>, session: Rc<SessionOf>) {
    stage.agents.set(stage.agents.get() + 1);
    let turns = stage.plan.turns;
    sleep(Duration::from_millis(pick(0..2_000))).await;
    converse(stage.clone(), session, turns, 0).await;
    stage.agents.set(stage.agents.get() - 1);
}

/// A conversation of so many turns.
fn converse(
    stage: Rc<Stage>,
    session: Rc<SessionOf>,
    turns: u64,
    depth: u32,
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let mut client = Client::new(&stage, &session);
        let mut messages = opening(&session, depth);
        for _ in 0..turns {
            let siblings = chance(80);
            let ask = stage.ask(session.number, siblings);
            mark(&mut messages, ask);
            let others = siblings.then(|| {
                let (stage, session, messages) = (stage.clone(), session.clone(), messages.clone());
                spawn(async move {
                    let mut client = Client::new(&stage, &session);
                    // Whether it gets one is its own affair.
                    let _ = client.ask(ask, &messages, true).await;
                })
            });
            let answer = client.ask(ask, &messages, siblings).await;
            if let Some(others) = others {
                others.await;
            }
            let Ok(answer) = answer else { return };
            go_on(&mut messages, answer);
            if depth == 0 && chance(100) {
                converse(stage.clone(), session.clone(), pick(1..3), depth + 1).await;
            }
            if chance(100) {
                messages = opening(&session, depth);
                messages.push(json!({"role": "user", "content": "So far all went well."}));
            }
            sleep(Duration::from_millis(pick(0..500))).await;
        }
    })
}

fn opening(session: &SessionOf, depth: u32) -> Vec<Value> {
    let role = ["leads", "helps"][depth.min(1) as usize];
    let text = format!("You work in {} and one who {role}.", session.mark());
    vec![json!({"role": "system", "content": text}), json!({"role": "user", "content": "Begin."})]
}

/// The word that tells this request from all others, in its last message.
pub fn mark_of(ask: u64) -> String {
    format!("ask{ask:05}.")
}

fn mark(messages: &mut [Value], ask: u64) {
    if let Some(last) = messages.last_mut() {
        let text = format!("{} {}", last["content"].as_str().unwrap_or_default(), mark_of(ask));
        last["content"] = json!(text);
    }
}

/// Takes the answer over, as agents do, and says something to it.
fn go_on(messages: &mut Vec<Value>, mut answer: Value) {
    if chance(500)
        && let Some(answer) = answer.as_object_mut()
    {
        answer.retain(|name, _| !name.starts_with("reasoning"));
    }
    let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
    messages.push(answer);
    if calls.is_empty() {
        messages.push(json!({"role": "user", "content": "Go on."}));
    }
    for call in calls {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "a b c"}));
    }
}
