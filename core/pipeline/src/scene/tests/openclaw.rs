//! What OpenClaw calls for, by the evidence it gives.

use super::*;

const HEAD: &str = "<!-- openclaw:attempt:STABLE -->\nYou are a personal assistant.";
const TASK: &str = "[Sun 2026-11-29 23:15 UTC] Count the files.\n\n\nRuntime: agent=main";
/// What ends each request in Chat and Messages, and follows the task in Responses.
const NOTE: &str =
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
const TOOLS: [&str; 3] = ["exec", "read", "tool_call"];

fn talk(said: &[&'static str]) -> Vec<(Role, &'static str)> {
    let mut messages = vec![(Role::System, HEAD)];
    for (at, text) in said.iter().enumerate() {
        if at > 0 {
            messages.extend([
                (Role::Assistant, ""),
                (Role::Tool, "3"),
                (Role::Assistant, "Three."),
            ]);
        }
        messages.push((Role::User, text));
    }
    messages
}

#[track_caller]
fn check(tools: &[&str], messages: &[(Role, &str)], scene: Scene, rule: &str) {
    check_calls("openclaw", vec![(Case::new(messages).tools(tools), scene, rule)]);
}

#[test]
fn its_texts_and_tools_decide() {
    let announced = "[Inter-session message] sourceSession=a sourceTool=subagent_announce\nThree.";
    let beat =
        "[Sun 2026-11-29 23:15 UTC] Follow the heartbeat monitor scratch context when given.";
    let flush = "Pre-compaction memory flush. Store durable memories.";
    let child = "[Subagent Context] You are a subagent.\n\n[Subagent Task]\nCount the folders.";
    for (said, scene, rule) in [
        (&[TASK][..], Scene::Main, "openclaw-main"),
        (&[TASK, "And the folders?"], Scene::Main, "openclaw-main"),
        (&[child], Scene::Subagent, "openclaw-subagent"),
        (&[TASK, announced], Scene::Announce, "openclaw-announce"),
        // It stays in the history of what comes after.
        (&[TASK, announced, "Thanks. And the folders?"], Scene::Main, "openclaw-main"),
        (&[TASK, beat], Scene::Heartbeat, "openclaw-heartbeat"),
        (&[beat], Scene::Heartbeat, "openclaw-heartbeat"),
        (&[TASK, flush], Scene::Memory, "openclaw-memory-flush"),
        // A task about these is none of them.
        (&["[Sun] Where is 'Pre-compaction memory flush.' said?"], Scene::Main, "openclaw-main"),
        (&["Explain: Follow the heartbeat monitor scratch"], Scene::Main, "openclaw-main"),
        (&["Translate: Run the following periodic tasks"], Scene::Main, "openclaw-main"),
    ] {
        let messages = talk(said);
        check(&TOOLS, &messages, scene, rule);
        let noted = [&messages[..], &[(Role::User, NOTE)]].concat();
        check(&TOOLS, &noted, scene, rule);
        let worked = [&noted[..], &[(Role::Assistant, ""), (Role::Tool, "3")]].concat();
        check(&TOOLS, &worked, scene, rule);
    }
    let side = |system| [(Role::System, system), (Role::User, "<conversation>…</conversation>")];
    for (system, scene, rule) in [
        ("You are a context summarization assistant. …", Scene::Compaction, "openclaw-compaction"),
        ("Generate a concise session title (3-6 words, …", Scene::Title, "openclaw-title"),
        ("Generate a very short topic label (2-4 words, …", Scene::Title, "openclaw-title"),
        ("Write an Activity recap for someone …", Scene::Summary, "openclaw-recap"),
        ("You are a memory search agent.", Scene::Unknown, "none"),
    ] {
        check(&[], &side(system), scene, rule);
    }
    check(&[], &talk(&[TASK]), Scene::Unknown, "none");
}

#[test]
fn a_session_that_names_no_agent_is_known_by_its_instructions() {
    let set = SceneSet::for_session(None, &[], &[]).unwrap();
    let case = Case::new(&talk(&[TASK])).tools(&TOOLS);
    assert_eq!(case.verdict(&set), (Scene::Main, "openclaw-main".to_owned()));
}
